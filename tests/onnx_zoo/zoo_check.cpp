#include "tests/onnx_zoo/zoo_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "compile/driver.h"
#include "compile/import/onnx/reader.h"
#include "kvern/error.h"
#include "run/engine/engine.h"

namespace kvern::zoo {
namespace {

namespace fs = std::filesystem;

struct Prompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  double min_margin = 0;
  std::vector<float> logits;  // after the last token
};

struct Answered {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;  // of the answer's tokens
  bool operator==(const Answered&) const = default;
};

Json read_json(const std::string& path) {
  return parse_json(read_text_file(path, 64 << 20), path, Code::kInvalidArgument);
}

std::vector<Prompt> read_prompts(const std::string& path) {
  std::vector<Prompt> out;
  const Json oracle = read_json(path);
  for (const Json& from : oracle.at("prompts")) {
    out.push_back(
        {from.at("ids").get<std::vector<int32_t>>(), from.at("greedy").get<std::vector<int32_t>>(),
         from.at("min_margin").get<double>(), from.at("logits").get<std::vector<float>>()});
  }
  return out;
}

// A longrope model turns by its short table up to this length, by its long one above; a plan holds
// one of them, so the runs stay below. 0: the model has no such switch.
int64_t switching_length(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!fs::exists(path)) return 0;
  const Json config = read_json(path);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(key) || !config.at(key).is_object()) continue;
    const Json& rope = config.at(key);
    if (rope.value("type", rope.value("rope_type", "")) != "longrope") continue;
    if (rope.contains("original_max_position_embeddings")) {
      return rope.at("original_max_position_embeddings").get<int64_t>();
    }
    return config.value("original_max_position_embeddings", int64_t{0});
  }
  return 0;
}

std::shared_ptr<engine::Generation> ask(engine::Engine& engine, const Prompt& prompt,
                                        bool use_prefix_cache) {
  engine::RequestSpec spec;
  spec.prompt_ids = prompt.ids;
  const int64_t room = engine.max_context_length() - static_cast<int64_t>(prompt.ids.size());
  spec.max_new_tokens =
      static_cast<int32_t>(std::min(room, static_cast<int64_t>(prompt.greedy.size())));
  spec.ignore_eos = true;
  spec.use_prefix_cache = use_prefix_cache;
  spec.num_logprobs = 0;
  return engine.submit(spec);
}

Answered wait_for(engine::Generation& generation) {
  Answered out;
  engine::Event event;
  while (generation.next(event)) {
    if (event.kind == engine::EventKind::kFailed) throw Error(event.code, event.message);
    if (event.kind != engine::EventKind::kToken) continue;
    for (const TokenLogprobs& logprobs : event.logprobs)
      out.logprobs.push_back(logprobs.token.logprob);
  }
  out.ids = generation.ids();
  return out;
}

// Runs the plan and writes the first thing that is not equal into the outcome.
class Run {
 public:
  Run(engine::Engine& engine, std::vector<Prompt> prompts, const CheckOptions& options,
      Outcome& outcome)
      : engine_(engine), prompts_(std::move(prompts)), options_(options), outcome_(outcome) {}

  void all() {
    for (size_t i = 0; i < prompts_.size(); ++i) logits_of(i);
    for (size_t i = 0; i < prompts_.size(); ++i) {
      alone_.push_back(wait_for(*ask(engine_, prompts_[i], false)));
      compare_ids(i, alone_.back().ids);
    }
    ragged_batch();
    warm();
  }

 private:
  void differs(const std::string& what) {
    if (outcome_.state == State::kDiffers) return;
    outcome_.state = State::kDiffers;
    outcome_.message = what;
  }

  void logits_of(size_t i) {
    const Prompt& prompt = prompts_[i];
    double worst = 0;
    bool finite = true;
    const auto last = static_cast<int32_t>(prompt.ids.size()) - 1;
    engine_.score(prompt.ids, {last}, [&](int32_t, std::span<const float> logits) {
      finite = logits.size() == prompt.logits.size();
      for (size_t j = 0; finite && j < logits.size(); ++j) {
        finite = std::isfinite(logits[j]);
        worst = std::max(worst, static_cast<double>(std::fabs(logits[j] - prompt.logits[j])));
      }
    });
    outcome_.worst_logit = std::max(outcome_.worst_logit, worst);
    if (!finite) differs(fmt::format("prompt {}: its logits are not finite or not as many", i));
    if (worst > options_.logit_tolerance) {
      differs(fmt::format("prompt {}: a logit is {:.2e} from ONNX Runtime's", i, worst));
    }
  }

  void compare_ids(size_t i, const std::vector<int32_t>& got) {
    const Prompt& prompt = prompts_[i];
    if (prompt.min_margin <= options_.margin) return;
    outcome_.compared_ids += static_cast<int>(got.size());
    const auto [mine, theirs] = std::mismatch(got.begin(), got.end(), prompt.greedy.begin());
    if (mine == got.end()) return;
    differs(fmt::format("prompt {}: token {} of the answer is {}, ONNX Runtime's is {}", i,
                        mine - got.begin(), *mine, *theirs));
  }

  // Three prompts, two of them twice, all at once.
  void ragged_batch() {
    std::vector<std::shared_ptr<engine::Generation>> running;
    std::vector<size_t> which;
    for (size_t i = 0; i < prompts_.size() + 2; ++i) {
      which.push_back(i % prompts_.size());
      running.push_back(ask(engine_, prompts_[which.back()], true));
    }
    for (size_t i = 0; i < running.size(); ++i) {
      if (wait_for(*running[i]) == alone_[which[i]]) continue;
      differs(fmt::format("prompt {} is answered differently in a batch of five", which[i]));
    }
  }

  // Each prompt once more, its pages in the prefix cache.
  void warm() {
    const int64_t before = engine_.stats().scheduler.prefix_hit_tokens;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      if (wait_for(*ask(engine_, prompts_[i], true)) == alone_[i]) continue;
      differs(fmt::format("prompt {} is answered differently with its prefix reused", i));
    }
    outcome_.prefix_hit_tokens = engine_.stats().scheduler.prefix_hit_tokens - before;
    if (outcome_.prefix_hit_tokens == 0) differs("no page of a prompt was found again");
  }

  engine::Engine& engine_;
  std::vector<Prompt> prompts_;
  const CheckOptions& options_;
  Outcome& outcome_;
  std::vector<Answered> alone_;
};

}  // namespace

const char* state_name(State state) {
  return state == State::kRight ? "right" : state == State::kRefused ? "refused" : "differs";
}

CheckOptions options_of_style(const std::string& style) {
  CheckOptions out;
  // ONNX Runtime ran them at accuracy_level 1, which is f32 throughout; the fast kernels of int4
  // weights round activations to bf16.
  out.plain_kernels = style.ends_with("int4") || style.starts_with("int8");
  return out;
}

Outcome check_export(const std::string& folder, const CheckOptions& options) {
  std::vector<Prompt> prompts = read_prompts(folder + "/oracle.json");
  const fs::path plan = fs::temp_directory_path() / fmt::format("kvern_zoo_{}.plan", ::getpid());
  Outcome outcome;
  try {
    compile::BuildRequest request;
    request.model_path = import::onnx::find_onnx(folder);
    request.plan_path = plan.string();
    request.kv_storage = DType::kF32;
    request.page_tokens = 2;  // so that a prompt of three tokens leaves a page behind
    request.max_sequences = 8;
    request.max_tokens_per_step = 64;
    request.max_context_length = switching_length(folder);
    request.tensor_form.per_token_dynamic_quant = options.per_token_dynamic_quant;
    compile::build(request);
  } catch (const Error& error) {
    outcome.state = State::kRefused;
    outcome.message = error.what();
    return outcome;
  }
  try {
    engine::EngineOptions run;
    run.num_threads = 1;
    run.kv_capacity_tokens = 1024;
    run.plain_kernels = options.plain_kernels;
    engine::Engine engine(std::make_shared<const plan::PlanFile>(plan.string()), run);
    Run(engine, std::move(prompts), options, outcome).all();
  } catch (const Error& error) {
    outcome.state = State::kDiffers;
    outcome.message = error.what();
  }
  std::error_code ignored;
  fs::remove(plan, ignored);
  return outcome;
}

}  // namespace kvern::zoo
