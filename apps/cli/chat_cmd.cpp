#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "apps/cli/chat_session.h"
#include "apps/cli/engine_flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/line_editor.h"
#include "apps/cli/output.h"
#include "apps/cli/sampling_flags.h"
#include "apps/cli/verb.h"
#include "kvern/plan.h"

namespace kvern::cli {
namespace {

struct Flags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string system;
  std::string load;
  int32_t max_new_tokens = 0;
};

constexpr const char* kCommands =
    "  /system TEXT   begin anew with this system message (without TEXT: none)\n"
    "  /reset         forget the conversation, keep the system message\n"
    "  /retry         answer the last question again\n"
    "  /save FILE     write the conversation to FILE and its context to FILE.kv\n"
    "  /load FILE     go on with a saved conversation\n"
    "  /help          this list\n"
    "  /exit          leave (as Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n";

class Chat {
 public:
  Chat(Engine& engine, const Flags& flags, Request defaults)
      : flags_(flags), session_(engine, std::move(defaults)) {
    if (!flags.system.empty()) session_.set_system(flags.system);
    if (!flags.load.empty()) load(flags.load);
  }

  int run() {
    if (editor_.interactive() && !flags_.engine.quiet) {
      print_note("Type a message; /help lists commands, Ctrl-D leaves.");
    }
    // Ctrl-C between two lines ends nothing either.
    std::optional<InterruptAction> keep_going;
    if (editor_.interactive()) keep_going.emplace([] {}, InterruptAction::After::kGoOn);
    std::string message;
    for (;;) {
      switch (read_message(message)) {
        case LineEditor::Outcome::kEnd:
          if (editor_.interactive()) print("\n");
          return code_;
        case LineEditor::Outcome::kInterrupted:
          if (message.empty()) print_note("(Ctrl-D or /exit leaves)");
          continue;
        case LineEditor::Outcome::kLine:
          if (!handle(message)) return code_;
      }
    }
  }

 private:
  LineEditor::Outcome read_message(std::string& message) {
    message.clear();
    std::string line;
    for (const char* prompt = "> ";; prompt = ". ") {
      const LineEditor::Outcome outcome = editor_.read(prompt, line);
      if (outcome != LineEditor::Outcome::kLine) return outcome;
      const bool more = line.ends_with('\\');
      if (more) line.back() = '\n';
      message += line;
      if (!more) return outcome;
    }
  }

  // False when it is time to leave.
  bool handle(const std::string& message) {
    if (message.find_first_not_of(" \t\n") == std::string::npos) return true;
    try {
      if (message[0] == '/') return command(message);
      show([&](const auto& on_event) { return session_.ask(message, on_event); });
    } catch (const Error& error) {
      print_error(error.what());
      const bool too_long = message[0] != '/' && error.code() == Code::kInvalidRequest;
      if (too_long && !session_.messages().empty())
        print_note("(/reset begins a new conversation)");
      // A script must not go on as if its question had been answered.
      if (!editor_.interactive()) {
        code_ = error.code() == Code::kInvalidRequest ? kBadInput : kFailed;
        return false;
      }
    }
    return true;
  }

  bool command(const std::string& line) {
    const size_t space = line.find_first_of(" \t");
    const std::string name = line.substr(0, space);
    const size_t from = space == std::string::npos ? space : line.find_first_not_of(" \t", space);
    const std::string argument = from == std::string::npos ? "" : line.substr(from);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/help") {
      print_note(kCommands);
    } else if (name == "/reset") {
      session_.reset();
    } else if (name == "/system") {
      session_.set_system(argument);
    } else if (name == "/retry") {
      show([this](const auto& on_event) { return session_.retry(on_event); });
    } else if (name == "/save" && !argument.empty()) {
      session_.save(argument);
      note(fmt::format("saved {} messages", session_.messages().size()));
    } else if (name == "/load" && !argument.empty()) {
      load(argument);
    } else {
      throw Error(Code::kInvalidRequest,
                  fmt::format("'{}' is no command{}; /help lists them", name,
                              name == "/save" || name == "/load" ? " without a file" : ""));
    }
    return true;
  }

  void load(const std::string& path) {
    const std::string remark = session_.load(path);
    if (!remark.empty()) print_error("warning: " + remark);
    note(fmt::format("{} messages, {} tokens of context", session_.messages().size(),
                     session_.context_tokens()));
  }

  template <class Ask>
  void show(Ask ask) {
    session_.forget_cancel();
    const InterruptAction stop([this] { session_.cancel(); }, InterruptAction::After::kGoOn);
    const Answer answer = ask([](const Event& event) { print(event.text); });
    print("\n");
    if (!answer.message.empty()) throw Error(Code::kInvalidRequest, answer.message);
    if (answer.reason == FinishReason::kCancelled) note("(stopped)");
    if (answer.reason == FinishReason::kLength) note("(cut: --max-new-tokens or context length)");
    if (flags_.engine.quiet || !editor_.interactive()) return;
    const Timings& t = answer.timings;
    print_note(
        fmt::format("[{} + {} tokens, {} cached | first token after {:.0f} ms | {:.1f} "
                    "tokens/s]",
                    t.prompt_tokens, t.answer_tokens, t.cached_tokens, t.ttft_ms(),
                    t.decode_tokens_per_second));
  }

  void note(const std::string& text) const {
    if (!flags_.engine.quiet) print_note(text);
  }

  const Flags& flags_;
  ChatSession session_;
  LineEditor editor_;
  int code_ = kOk;
};

int chat(const Flags& flags) {
  const std::string plan =
      plan_for(flags.engine.model, flags.engine.build, {flags.engine.quiet, flags.engine.verify});
  Engine engine = Engine::load(plan, flags.engine.to_options());
  const PlanSummary& summary = engine.summary();
  if (!summary.has_chat_template || !summary.has_tokenizer) {
    const std::string& model = flags.engine.model;
    throw Error(Code::kUnsupported,
                summary.has_tokenizer
                    ? fmt::format("'{}' has no chat template: it completes text and does not chat; "
                                  "use `kvern run {} -p TEXT`",
                                  model, model)
                    : fmt::format("'{}' has no tokenizer and takes token ids only; use `kvern run "
                                  "{} --prompt-ids 1,2,3`, or build it with tokenizer.json beside "
                                  "the model",
                                  model, model));
  }
  if (summary.synthetic) print_error("warning: the weights are synthetic: answers mean nothing");
  Request defaults;
  defaults.sampling = sampling_of(flags.sampling, summary.sampling);
  warn_of_idle_options(flags.sampling, defaults.sampling);
  defaults.max_new_tokens = flags.max_new_tokens;
  return Chat(engine, flags, std::move(defaults)).run();
}

}  // namespace

std::function<int()> setup_chat(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  add_engine_flags(app, {flags, &flags->engine});
  auto* system = app.add_option("--system", flags->system, "The system message");
  app.add_option("--load", flags->load, "Go on with a conversation that /save wrote")
      ->excludes(system);
  app.add_option("-n,--max-new-tokens", flags->max_new_tokens,
                 "End an answer after so many tokens; default: what the context length holds")
      ->check(CLI::Range(1, 1 << 24));
  flags->sampling.preset = "model";
  add_sampling_flags(app, {flags, &flags->sampling});
  return [flags] { return chat(*flags); };
}

}  // namespace kvern::cli
