#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/cli/build_options.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/prompt.h"
#include "apps/cli/verb.h"
#include "kvern/generate.h"

namespace kvern::cli {
namespace {

struct Flags {
  std::string model;
  PromptFlags prompt;
  int32_t max_new_tokens = 0;
  double temperature = 0;
  int threads = 0;
  int64_t kv_capacity_tokens = 0;
  int32_t prefill_chunk = 0;
  bool ignore_eos = false;
  bool ids = false;
  bool json = false;
  bool verify = false;
  bool no_kv_cache = false;
  bool plain = false;
  bool quiet = false;
  std::vector<std::string> stop;
  std::string build_options;  // that were given: they mean nothing for a plan
};

struct Run {
  std::vector<int32_t> prompt;
  Answer answer;
  double load_ms = 0;
};

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Request request_of(const Flags& flags, std::vector<int32_t> prompt) {
  Request request;
  request.prompt_ids = std::move(prompt);
  request.max_new_tokens = flags.max_new_tokens;
  request.sampling.temperature = flags.temperature;
  request.ignore_eos = flags.ignore_eos;
  request.stop_strings = flags.stop;
  request.recompute_context = flags.no_kv_cache;
  return request;
}

// Prints pieces as they come; ids one by one with commas.
class Printer {
 public:
  explicit Printer(const Flags& flags) : flags_(flags) {}
  void show(const Event& event) {
    if (flags_.json) return;
    if (!flags_.ids) {
      print(event.text);
    } else if (event.kind == Event::Kind::kToken) {
      print(fmt::format("{}{}", first_ ? "" : ",", event.id));
      first_ = false;
    }
  }

 private:
  const Flags& flags_;
  bool first_ = true;
};

Answer stream(Engine& engine, const Request& request, const Flags& flags) {
  ExecutionContext context = engine.submit(request);
  const InterruptAction cancel([&] { context.cancel(); });
  Printer printer(flags);
  return collect(context, [&](const Event& event) { printer.show(event); });
}

nlohmann::ordered_json to_json(const Run& run) {
  const Timings& t = run.answer.timings;
  return {{"text", run.answer.text},
          {"ids", run.answer.ids},
          {"prompt_ids", run.prompt},
          {"finish_reason", name_of(run.answer.reason)},
          {"timings",
           {{"load_ms", run.load_ms},
            {"ttft_ms", t.ttft_ms()},
            {"prefill_ms", t.prefill_ms},
            {"decode_ms", t.decode_ms},
            {"prompt_tokens", t.prompt_tokens},
            {"answer_tokens", t.answer_tokens},
            {"prefill_tokens_per_second", t.prefill_tokens_per_second},
            {"decode_tokens_per_second", t.decode_tokens_per_second}}},
          {"peak_memory_bytes", peak_memory_bytes()}};
}

std::string closing_line(const Run& run) {
  const Timings& t = run.answer.timings;
  return fmt::format(
      "[load {:.0f} ms | first token after {:.0f} ms | prefill {} tokens at {:.0f} tokens/s | "
      "decode "
      "{} tokens at {:.1f} tokens/s | peak memory {} | {}]",
      run.load_ms, t.ttft_ms(), t.prompt_tokens, t.prefill_tokens_per_second, t.answer_tokens,
      t.decode_tokens_per_second, show_bytes(peak_memory_bytes()), name_of(run.answer.reason));
}

int finish(const Run& run, const Flags& flags) {
  if (flags.json) {
    print(to_json(run).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    print("\n");
    if (!flags.quiet) print_note(closing_line(run));
  }
  if (!run.answer.message.empty()) print_error(run.answer.message);
  if (run.answer.reason == FinishReason::kCancelled) return interrupted() ? kInterrupted : kFailed;
  const bool failed =
      run.answer.reason == FinishReason::kFailed || run.answer.reason == FinishReason::kKvExhausted;
  return failed ? kFailed : kOk;
}

int run(const Flags& flags, const BuildFlags& build_flags) {
  const bool quiet = flags.quiet || flags.json;
  if (is_plan(flags.model) && !flags.build_options.empty()) {
    throw Error(
        Code::kInvalidArgument,
        fmt::format("{} is decided when a plan is built; '{}' is a plan: build it again, or "
                    "give the model",
                    flags.build_options, flags.model));
  }
  const std::string plan = is_plan(flags.model)
                               ? flags.model
                               : cached_plan(flags.model, build_flags, {quiet, flags.verify});
  EngineOptions options;
  options.num_threads = flags.threads;
  options.verify = flags.verify;
  options.plain_kernels = flags.plain;
  options.kv_capacity_tokens = flags.kv_capacity_tokens;
  options.prefill_chunk_tokens = flags.prefill_chunk;
  Run run;
  const auto start = std::chrono::steady_clock::now();
  Engine engine = Engine::load(plan, options);
  run.load_ms = since_ms(start);
  run.prompt = prompt_ids(flags.prompt, engine.text());
  run.answer = stream(engine, request_of(flags, run.prompt), flags);
  return finish(run, flags);
}

void add_prompt_options(CLI::App& app, const std::shared_ptr<Flags>& flags) {
  app.add_option("-p,--prompt", flags->prompt.text, "The prompt");
  app.add_option("-f,--file", flags->prompt.file,
                 "Read the prompt from a file (-: standard input)");
  app.add_option("--prompt-ids", flags->prompt.ids, "The prompt as token ids: 1,2,3");
  app.add_option("STDIN", flags->prompt.dash, "-: read the prompt from standard input");
  app.add_flag("--chat", flags->prompt.chat, "Put the prompt through the model's chat template");
  app.add_option("--system", flags->prompt.system, "The system message, with --chat");
}

}  // namespace

std::function<int()> setup_run(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  auto build_flags = std::make_shared<BuildFlags>();
  app.add_option("PLAN|MODEL", flags->model,
                 "A plan, or a model that is built into the cache first")
      ->required();
  add_prompt_options(app, flags);
  app.add_option("-n,--max-new-tokens", flags->max_new_tokens,
                 "End after so many tokens; default: what the context length holds")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--temperature", flags->temperature, "0: greedy. Others: not supported yet")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--stop", flags->stop, "End where this text appears; may be given again")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", flags->ignore_eos, "Do not end at the model's own stop tokens");
  app.add_flag("--ids", flags->ids, "Print token ids in place of text");
  app.add_flag("--json", flags->json, "Print one JSON object at the end");
  app.add_flag("--verify", flags->verify, "Check every byte of the plan first");
  app.add_flag("--no-kv-cache", flags->no_kv_cache,
               "Compute the whole context again for every token (for comparison)");
  app.add_flag("--plain", flags->plain, "Plain kernels only: the slow oracle");
  app.add_option("--threads", flags->threads, "Compute threads; default: one per core")
      ->check(CLI::Range(1, 1024));
  app.add_option("--kv-capacity", flags->kv_capacity_tokens,
                 "Tokens that the KV pool holds, in whole pages for each sequence")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--prefill-chunk", flags->prefill_chunk, "Prompt tokens per step")
      ->check(CLI::Range(1, 65536));
  app.add_flag("-q,--quiet", flags->quiet, "No progress and no closing line");
  add_build_flags(app, build_flags);
  const std::vector<const CLI::Option*> built = {
      app.get_option("--weights"), app.get_option("--kv"), app.get_option("--max-context-length"),
      app.get_option("--max-sequences")};
  return [flags, build_flags, built, prompt = app.get_option("-p")] {
    flags->prompt.text_given = prompt->count() > 0;
    for (const CLI::Option* option : built) {
      if (option->count() > 0) flags->build_options = option->get_name();
    }
    return run(*flags, *build_flags);
  };
}

}  // namespace kvern::cli
