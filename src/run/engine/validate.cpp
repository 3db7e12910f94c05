#include "run/engine/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvern::engine {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(Code::kInvalidRequest, "request: " + message);
}

void validate_prompt(const RequestSpec& spec, const RequestLimits& limits) {
  if (spec.prompt_ids.empty()) refuse("the prompt holds no token");
  for (size_t i = 0; i < spec.prompt_ids.size(); ++i) {
    const int32_t id = spec.prompt_ids[i];
    if (id < 0 || id >= limits.vocabulary_size) {
      refuse(fmt::format("prompt id {} at position {} is outside the vocabulary [0, {})", id, i,
                         limits.vocabulary_size));
    }
  }
  const auto length = static_cast<int64_t>(spec.prompt_ids.size());
  const int64_t answer = spec.purpose == step::Purpose::kExport ? 0 : 1;
  if (length + answer > limits.max_context_length) {
    refuse(
        fmt::format("the prompt has {} tokens; the plan's context length is {}, answer "
                    "included. Shorten it or build with a larger --max-context-length",
                    length, limits.max_context_length));
  }
  if (length > limits.kv_capacity_tokens) {
    refuse(
        fmt::format("the prompt has {} tokens; the engine's KV memory holds {}. Load the plan "
                    "with a larger KV capacity",
                    length, limits.kv_capacity_tokens));
  }
}

constexpr int32_t kMaxLogprobs = 20;
constexpr size_t kMaxBiases = 1024;
constexpr float kMaxBias = 1000.0f;
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 1024;

void in_range(const char* name, float value, float least, float most) {
  if (value >= least && value <= most) return;  // NaN is neither
  refuse(fmt::format("{} is {}; {} to {} are possible", name, value, least, most));
}

void validate_bias(const std::vector<LogitBias>& biases, const RequestLimits& limits) {
  if (biases.size() > kMaxBiases) {
    refuse(fmt::format("logit_bias names {} ids; {} are possible", biases.size(), kMaxBiases));
  }
  std::vector<int32_t> ids;
  for (const LogitBias& bias : biases) {
    if (bias.id < 0 || bias.id >= limits.vocabulary_size) {
      refuse(fmt::format("logit_bias names id {}, which is outside the vocabulary [0, {})", bias.id,
                         limits.vocabulary_size));
    }
    if (!(bias.bias <= kMaxBias) || (std::isfinite(bias.bias) && bias.bias < -kMaxBias)) {
      refuse(fmt::format("logit_bias of id {} is {}; {} to {} and -infinity are possible", bias.id,
                         bias.bias, -kMaxBias, kMaxBias));
    }
    ids.push_back(bias.id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) refuse(fmt::format("logit_bias names id {} twice", *twice));
}

void validate_sampling(const step::SamplingParams& sampling, const RequestLimits& limits) {
  in_range("temperature", sampling.temperature, 0.0f, 100.0f);
  if (!(sampling.top_p > 0.0f && sampling.top_p <= 1.0f)) {
    refuse(fmt::format("top_p is {}; above 0 and at most 1 is possible", sampling.top_p));
  }
  in_range("min_p", sampling.min_p, 0.0f, 1.0f);
  if (sampling.top_k < 0) refuse(fmt::format("top_k is {}; 0 means all", sampling.top_k));
  in_range("repetition_penalty", sampling.repetition_penalty, 0.01f, 100.0f);
  in_range("presence_penalty", sampling.presence_penalty, -2.0f, 2.0f);
  in_range("frequency_penalty", sampling.frequency_penalty, -2.0f, 2.0f);
  validate_bias(sampling.logit_bias, limits);
}

void validate_logprobs(const RequestSpec& spec) {
  if (spec.num_logprobs < -1 || spec.num_logprobs > kMaxLogprobs) {
    refuse(fmt::format("num_logprobs is {}; -1 (none) to {} are possible", spec.num_logprobs,
                       kMaxLogprobs));
  }
  if (spec.purpose == step::Purpose::kLogprobs) {
    refuse("purpose kLogprobs is the scheduler's own; ask with prompt_logprobs");
  }
  if (spec.prompt_logprobs && spec.purpose == step::Purpose::kExport) {
    refuse("prompt_logprobs with purpose kExport");
  }
}

void validate_stops(const RequestSpec& spec, const RequestLimits& limits) {
  if (spec.stop_strings.size() > kMaxStops || spec.stop_ids.size() > kMaxStops) {
    refuse(fmt::format("{} stop strings and {} stop ids; {} of each are possible",
                       spec.stop_strings.size(), spec.stop_ids.size(), kMaxStops));
  }
  if (!spec.stop_strings.empty() && !limits.has_tokenizer) {
    refuse("stop strings need a tokenizer, which this plan does not have");
  }
  for (const std::string& stop : spec.stop_strings) {
    if (stop.empty()) refuse("a stop string is empty");
    if (stop.size() > kMaxStopBytes) {
      refuse(
          fmt::format("a stop string has {} bytes; {} are possible", stop.size(), kMaxStopBytes));
    }
  }
  for (const int32_t id : spec.stop_ids) {
    if (id < 0 || id >= limits.vocabulary_size) {
      refuse(
          fmt::format("stop id {} is outside the vocabulary [0, {})", id, limits.vocabulary_size));
    }
  }
}

void validate_export(const RequestSpec& spec) {
  if (spec.purpose != step::Purpose::kExport) {
    if (!spec.export_rows.empty()) refuse("export_rows without purpose kExport");
    return;
  }
  int32_t last = -1;
  for (const int32_t row : spec.export_rows) {
    if (row <= last || static_cast<size_t>(row) >= spec.prompt_ids.size()) {
      refuse(fmt::format("export row {} is not above {} or not below the {} tokens of the prompt",
                         row, last, spec.prompt_ids.size()));
    }
    last = row;
  }
  if (last < 0) refuse("no row is wanted");
}

}  // namespace

void validate(const RequestSpec& spec, const RequestLimits& limits) {
  validate_prompt(spec, limits);
  validate_sampling(spec.sampling, limits);
  validate_logprobs(spec);
  validate_stops(spec, limits);
  validate_export(spec);
  if (spec.max_new_tokens < 0) {
    refuse(fmt::format("max_new_tokens is {}; 0 means as many as fit", spec.max_new_tokens));
  }
}

sched::Request to_request(RequestSpec spec, const RequestLimits& limits,
                          const std::vector<int32_t>& model_stop_ids) {
  const int64_t room = limits.max_context_length - static_cast<int64_t>(spec.prompt_ids.size());
  sched::Request out;
  out.prompt_ids = std::move(spec.prompt_ids);
  out.max_new_tokens = static_cast<int32_t>(
      spec.max_new_tokens == 0 ? room : std::min<int64_t>(room, spec.max_new_tokens));
  out.stop_ids = std::move(spec.stop_ids);
  if (!spec.ignore_eos) {
    out.stop_ids.insert(out.stop_ids.end(), model_stop_ids.begin(), model_stop_ids.end());
  }
  out.sampling = std::move(spec.sampling);
  out.num_logprobs = spec.num_logprobs;
  out.prompt_logprobs = spec.prompt_logprobs;
  out.recompute_context = spec.recompute_context;
  out.use_prefix_cache = spec.use_prefix_cache;
  out.keep_context = spec.keep_context;
  out.purpose = spec.purpose;
  out.export_rows = std::move(spec.export_rows);
  return out;
}

}  // namespace kvern::engine
