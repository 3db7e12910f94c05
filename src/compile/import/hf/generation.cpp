#include "compile/import/hf/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compile/import/hf/config.h"

namespace kvern::import::hf {
namespace {

constexpr const char* kFile = "generation_config.json";

// Fields that shape answers in transformers and have no counterpart here, with the value that means
// "off".
struct Unfollowed {
  const char* name;
  double off;
};
constexpr Unfollowed kUnfollowed[] = {
    {"typical_p", 1.0},
    {"epsilon_cutoff", 0.0},
    {"eta_cutoff", 0.0},
    {"no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1.0},
    {"num_beams", 1},
    {"penalty_alpha", 0.0},
    {"min_length", 0},
    {"min_new_tokens", 0},
};

double within(const Config& config, const char* key, double otherwise, double low, double high) {
  const double value = config.find_real(key).value_or(otherwise);
  if (value < low || value > high) {
    config.fail_field(key, fmt::format("is {}; {} to {} are possible", value, low, high));
  }
  return value;
}

}  // namespace

void add_stop_ids(const std::vector<int64_t>& ids, const std::string& where, ImportedModel& model) {
  for (const int64_t id : ids) {
    if (id < 0 || id >= model.vocabulary_size) {
      // Some files name -1 or an id beyond the vocabulary; no token can ever be it.
      model.warnings.push_back(
          fmt::format("{}: stop id {} is none of the model's {} tokens and is left out", where, id,
                      model.vocabulary_size));
      continue;
    }
    const auto stop = static_cast<int32_t>(id);
    if (std::ranges::find(model.stop_ids, stop) == model.stop_ids.end()) {
      model.stop_ids.push_back(stop);
    }
  }
}

void read_generation(std::string_view text, ImportedModel& model) {
  const Config config = Config::parse(text, kFile);
  if (const auto ids = config.find_integers("eos_token_id")) {
    model.stop_ids.clear();  // config.json's count where this file says nothing
    add_stop_ids(*ids, kFile, model);
  }
  for (const Unfollowed& field : kUnfollowed) {
    const auto value = config.find_real(field.name);
    if (value && *value != field.off) {
      model.warnings.push_back(
          fmt::format("{}: '{}' is {}; Kvern does not follow it", kFile, field.name, *value));
    }
  }
  GenerationDefaults& defaults = model.generation;
  defaults.repetition_penalty = within(config, "repetition_penalty", 1.0, 0.01, 100.0);
  if (!config.bool_or("do_sample", false)) return;
  defaults.temperature = within(config, "temperature", 1.0, 0.0, 100.0);
  defaults.top_k = config.find_integer("top_k").value_or(50);  // transformers' own default
  if (defaults.top_k < 0) config.fail_field("top_k", "is negative");
  defaults.top_p = within(config, "top_p", 1.0, 0.0, 1.0);
  defaults.min_p = within(config, "min_p", 0.0, 0.0, 1.0);
}

}  // namespace kvern::import::hf
