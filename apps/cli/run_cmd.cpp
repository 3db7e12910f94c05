#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/cli/answer_json.h"
#include "apps/cli/engine_flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/prompt.h"
#include "apps/cli/sampling_flags.h"
#include "apps/cli/verb.h"
#include "kvern/generate.h"
#include "kvern/plan.h"

namespace kvern::cli {
namespace {

struct Flags {
  EngineFlags engine;
  PromptFlags prompt;
  SamplingFlags sampling;
  int32_t max_new_tokens = 0;
  int32_t num_answers = 1;
  int32_t num_logprobs = -1;
  bool prompt_logprobs = false;
  bool ignore_eos = false;
  bool ids = false;
  bool json = false;
  bool no_kv_cache = false;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;
};

struct Run {
  std::vector<int32_t> prompt;
  std::vector<Collected> answers;
  double load_ms = 0;
  bool synthetic = false;
};

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Request request_of(const Flags& flags, const Sampling& proposed, std::vector<int32_t> prompt) {
  Request request;
  request.prompt_ids = std::move(prompt);
  request.max_new_tokens = flags.max_new_tokens;
  request.sampling = sampling_of(flags.sampling, proposed);
  request.ignore_eos = flags.ignore_eos;
  request.stop_strings = flags.stop;
  request.stop_ids = flags.stop_ids;
  request.num_logprobs = flags.num_logprobs;
  request.prompt_logprobs = flags.prompt_logprobs;
  request.recompute_context = flags.no_kv_cache;
  return request;
}

// Prints pieces as they come; ids one by one with commas.
class Printer {
 public:
  Printer(const Flags& flags, bool ids) : flags_(flags), ids_(ids) {}
  void show(const Event& event) {
    if (flags_.json) return;
    if (!ids_) {
      print(event.text);
    } else if (event.kind == Event::Kind::kToken) {
      print(fmt::format("{}{}", first_ ? "" : ",", event.id));
      first_ = false;
    }
  }

 private:
  const Flags& flags_;
  const bool ids_;
  bool first_ = true;
};

// Without a tokenizer there is no text to print.
bool prints_ids(const Engine& engine, const Flags& flags) {
  return flags.ids || !engine.text().has_tokenizer();
}

Collected collect_all(ExecutionContext& context, bool ids, const Flags& flags) {
  Collected out;
  Printer printer(flags, ids);
  out.answer = collect(context, [&](const Event& event) {
    printer.show(event);
    if (event.kind == Event::Kind::kToken && flags.num_logprobs >= 0) {
      out.logprobs.push_back(event.logprobs);
    }
    out.prompt_logprobs.insert(out.prompt_logprobs.end(), event.prompt_logprobs.begin(),
                               event.prompt_logprobs.end());
  });
  return out;
}

// Several answers run together; they are printed one after the other.
std::vector<Collected> answer(Engine& engine, const Request& request, const Flags& flags) {
  std::vector<ExecutionContext> contexts = engine.submit(request, flags.num_answers);
  const InterruptAction cancel([&] {
    for (ExecutionContext& context : contexts) context.cancel();
  });
  std::vector<Collected> out;
  for (ExecutionContext& context : contexts) {
    if (contexts.size() > 1 && !flags.json) print(fmt::format("[{}] ", out.size() + 1));
    out.push_back(collect_all(context, prints_ids(engine, flags), flags));
    if (!flags.json) print("\n");
  }
  return out;
}

nlohmann::ordered_json to_json(const Run& run) {
  const Collected& first = run.answers.front();
  nlohmann::ordered_json json = choice_json(first);
  if (run.synthetic) json["synthetic"] = true;
  json["prompt_ids"] = run.prompt;
  if (!first.prompt_logprobs.empty()) {
    json["prompt_logprobs"] = logprobs_json(first.prompt_logprobs);
  }
  if (run.answers.size() > 1) {
    json["answers"] = nlohmann::ordered_json::array();
    for (const Collected& each : run.answers) json["answers"].push_back(choice_json(each));
  }
  json["timings"] = timings_json(first.answer.timings, run.load_ms);
  json["peak_memory_bytes"] = peak_memory_bytes();
  return json;
}

std::string closing_line(const Run& run) {
  const Answer& first = run.answers.front().answer;
  const Timings& t = first.timings;
  return fmt::format(
      "[{}load {:.0f} ms | first token after {:.0f} ms | prefill {} tokens at {:.0f} tokens/s{} | "
      "decode {} tokens at {:.1f} tokens/s | peak memory {} | {}]",
      run.synthetic ? "synthetic weights | " : "", run.load_ms, t.ttft_ms(), t.prompt_tokens,
      t.prefill_tokens_per_second,
      t.cached_tokens > 0 ? fmt::format(", {} cached", t.cached_tokens) : "", t.answer_tokens,
      t.decode_tokens_per_second, show_bytes(peak_memory_bytes()), name_of(first.reason));
}

int exit_code(const Answer& answer) {
  if (!answer.message.empty()) print_error(answer.message);
  if (answer.reason == FinishReason::kCancelled) return interrupted() ? kInterrupted : kFailed;
  const bool failed =
      answer.reason == FinishReason::kFailed || answer.reason == FinishReason::kKvExhausted;
  return failed ? kFailed : kOk;
}

int finish(const Run& run, const Flags& flags) {
  if (flags.json) {
    print(to_json(run).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  int code = kOk;
  for (const Collected& each : run.answers) code = std::max(code, exit_code(each.answer));
  if (!flags.json && !flags.engine.quiet && code != kFailed) print_note(closing_line(run));
  return code;
}

int run(const Flags& flags) {
  const bool quiet = flags.engine.quiet || flags.json;
  if (!flags.json && (flags.num_logprobs >= 0 || flags.prompt_logprobs)) {
    throw Error(Code::kInvalidArgument, "log-probabilities are shown as JSON: give --json too");
  }
  const std::string plan =
      plan_for(flags.engine.model, flags.engine.build, {quiet, flags.engine.verify});
  Run run;
  const auto start = std::chrono::steady_clock::now();
  Engine engine = Engine::load(plan, flags.engine.to_options());
  run.load_ms = since_ms(start);
  const PlanSummary& summary = engine.summary();
  run.synthetic = summary.synthetic;
  run.prompt = prompt_ids(flags.prompt, engine.text());
  const Request request = request_of(flags, summary.sampling, run.prompt);
  if (!quiet) {
    warn_of_idle_options(flags.sampling, request.sampling);
    if (flags.num_answers > 1 && request.sampling.temperature == 0) {
      print_error("warning: all answers are the same at temperature 0; give --temperature");
    }
  }
  run.answers = answer(engine, request, flags);
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

void add_answer_options(CLI::App& app, const std::shared_ptr<Flags>& flags) {
  app.add_option("-n,--max-new-tokens", flags->max_new_tokens,
                 "End after so many tokens; default: what the context length holds")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--answers", flags->num_answers,
                 "So many answers, with seeds SEED, SEED + 1, …, computed together")
      ->check(CLI::Range(1, 1024));
  app.add_option("--stop", flags->stop, "End where this text appears; may be given again")
      ->allow_extra_args(false);
  app.add_option("--stop-id", flags->stop_ids, "End at this token; may be given again")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", flags->ignore_eos, "Do not end at the model's own stop tokens");
  app.add_flag("--ids", flags->ids, "Print token ids in place of text");
  app.add_flag("--json", flags->json, "Print one JSON object at the end");
  app.add_option("--logprobs", flags->num_logprobs,
                 "With --json: the log-probability of each answer token, and of so many likeliest "
                 "tokens beside it")
      ->check(CLI::Range(0, 20));
  app.add_flag("--prompt-logprobs", flags->prompt_logprobs,
               "With --json: the log-probabilities of the prompt's tokens");
  app.add_flag("--no-kv-cache", flags->no_kv_cache,
               "Compute the whole context again for every token (for comparison)");
}

}  // namespace

std::function<int()> setup_run(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  add_engine_flags(app, {flags, &flags->engine});
  add_prompt_options(app, flags);
  add_answer_options(app, flags);
  add_sampling_flags(app, {flags, &flags->sampling});
  return [flags, prompt = app.get_option("-p")] {
    flags->prompt.text_given = prompt->count() > 0;
    return run(*flags);
  };
}

}  // namespace kvern::cli
