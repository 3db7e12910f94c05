#include "run/engine/validate.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvern::engine {
namespace {

[[noreturn]] void refuse(const std::string& message, Code code = Code::kInvalidRequest) {
  throw Error(code, "request: " + message);
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

void validate_sampling(const step::SamplingParams& sampling) {
  const step::SamplingParams greedy;
  if (sampling.temperature != 0.0f) {
    refuse(fmt::format("temperature {} is not there yet; greedy decoding (temperature 0) is",
                       sampling.temperature),
           Code::kUnsupported);
  }
  if (sampling.repetition_penalty != greedy.repetition_penalty ||
      sampling.presence_penalty != greedy.presence_penalty ||
      sampling.frequency_penalty != greedy.frequency_penalty) {
    refuse("penalties are not there yet", Code::kUnsupported);
  }
}

void validate_export(const RequestSpec& spec) {
  if (spec.purpose == step::Purpose::kLogprobs) {
    refuse("log-probabilities are not there yet", Code::kUnsupported);
  }
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
  validate_sampling(spec.sampling);
  validate_export(spec);
  if (spec.max_new_tokens < 0) {
    refuse(fmt::format("max_new_tokens is {}; 0 means as many as fit", spec.max_new_tokens));
  }
  if (!spec.stop_strings.empty() && !limits.has_tokenizer) {
    refuse("stop strings need a tokenizer, which this plan does not have");
  }
  if (std::any_of(spec.stop_strings.begin(), spec.stop_strings.end(),
                  [](const std::string& stop) { return stop.empty(); })) {
    refuse("a stop string is empty");
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
  out.sampling = spec.sampling;
  out.recompute_context = spec.recompute_context;
  out.purpose = spec.purpose;
  out.export_rows = std::move(spec.export_rows);
  return out;
}

}  // namespace kvern::engine
