#include "compile/import/families/hf_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kvern/error.h"

namespace kvern::import {
namespace {

using hf::Config;

// The file's fields, wherever they stand: in the object of the rope, or beside it.
struct Fields {
  const Config& outer;
  std::optional<Config> rope;
  int64_t original_context_length = 0;  // where the file says nothing

  std::optional<double> real(const char* key) const {
    return rope ? rope->find_real(key) : std::nullopt;
  }
  double positive(const char* key) const {
    if (!rope) outer.fail_field(key, "is missing");
    return rope->positive(key);
  }
  std::string type() const {
    if (!rope) return "default";
    const std::string old = rope->string_or("type", "default");
    return rope->string_or("rope_type", old);
  }
  // The context length of the training before it was extended. Beside the rope (Phi-3) it goes
  // before the rope's own.
  double original() const {
    const auto otherwise = static_cast<double>(original_context_length);
    const double own =
        rope ? rope->positive_or("original_max_position_embeddings", otherwise) : otherwise;
    return outer.positive_or("original_max_position_embeddings", own);
  }
};

int64_t read_rotary_dim(const Fields& fields, const HfRopeDefaults& defaults, int64_t head_dim) {
  double part = defaults.partial;
  if (defaults.partial_field != nullptr) {
    part = fields.outer.positive_or(defaults.partial_field, part);
  }
  if (const auto own = fields.real("partial_rotary_factor")) part = *own;
  if (defaults.partial_field == nullptr && part != 1.0) {
    hf::unsupported(
        fields.outer.file(),
        fmt::format("partial_rotary_factor is {}; this family turns whole heads", part));
  }
  const auto dim = static_cast<int64_t>(static_cast<double>(head_dim) * part);
  if (!(part > 0 && part <= 1) || dim < 2 || dim % 2 != 0) {
    hf::unsupported(fields.outer.file(),
                    fmt::format("{} of {} elements of a head would be turned; an even number from "
                                "2 is wanted",
                                dim, head_dim));
  }
  return dim;
}

void read_llama3(const Fields& fields, RopeConfig& rope) {
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = fields.positive("factor");
  rope.low_freq_factor = fields.positive("low_freq_factor");
  rope.high_freq_factor = fields.positive("high_freq_factor");
  rope.original_context_length = static_cast<int64_t>(std::min(fields.original(), 1e15));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    fields.rope->fail_field("high_freq_factor", "must be above low_freq_factor");
  }
}

void read_yarn(const Fields& fields, const DecoderConfig& decoder, RopeConfig& rope) {
  const double original = fields.original();
  const double factor = fields.rope->positive_or(
      "factor", static_cast<double>(decoder.max_context_length) / original);
  const double mscale = fields.real("mscale").value_or(0);
  const double mscale_all = fields.real("mscale_all_dim").value_or(0);
  double scale = yarn_attention_factor(factor);
  if (mscale != 0 && mscale_all != 0) {
    scale = yarn_attention_factor(factor, mscale) / yarn_attention_factor(factor, mscale_all);
  }
  rope.attention_factor = fields.rope->positive_or("attention_factor", scale);
  apply_yarn(rope, factor, original, fields.rope->positive_or("beta_fast", 32),
             fields.rope->positive_or("beta_slow", 1), fields.rope->bool_or("truncate", true));
}

// Below the original context length LongRoPE divides by its short factors.
void read_longrope(const Fields& fields, DecoderConfig& decoder, RopeConfig& rope,
                   std::vector<std::string>& warnings) {
  const double original = fields.original();
  const double factor = fields.rope->positive_or(
      "factor", static_cast<double>(decoder.max_context_length) / original);
  const double scale = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  rope.factors = fields.rope->reals("short_factor");
  fields.rope->ignore({"long_factor"});
  if (static_cast<int64_t>(rope.factors.size()) != rope.rotary_dim / 2 ||
      std::ranges::any_of(rope.factors, [](double each) { return each <= 0; })) {
    fields.rope->fail_field("short_factor",
                            fmt::format("must hold {} numbers above zero", rope.rotary_dim / 2));
  }
  rope.attention_factor = fields.rope->positive_or("attention_factor", scale);
  cap_longrope(original, decoder, warnings);
}

RopeConfig read_rope(const Fields& fields, const HfRopeDefaults& defaults, DecoderConfig& decoder,
                     std::vector<std::string>& warnings) {
  RopeConfig rope;
  const double beside = fields.outer.positive_or(defaults.base_field, defaults.base);
  rope.base = fields.rope ? fields.rope->positive_or("rope_theta", beside) : beside;
  rope.rotary_dim = read_rotary_dim(fields, defaults, decoder.head_dim);
  const std::string type = fields.type();
  if (type == "default") return rope;
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = fields.positive("factor");
  } else if (type == "llama3") {
    read_llama3(fields, rope);
  } else if (type == "yarn") {
    read_yarn(fields, decoder, rope);
  } else if (type == "longrope" || type == "su") {
    read_longrope(fields, decoder, rope, warnings);
  } else if (type == "dynamic") {
    // Its base grows with sequences longer than max_position_embeddings; none is.
    fields.rope->ignore({"factor"});
    warnings.push_back(
        fmt::format("rope: dynamic scaling begins beyond {} tokens, which is the "
                    "longest context here",
                    decoder.max_context_length));
  } else {
    fields.rope->unsupported_field(
        "rope_type", fmt::format("is '{}'; default, linear, llama3, yarn, longrope and dynamic are "
                                 "supported",
                                 type.substr(0, 40)));
  }
  return rope;
}

}  // namespace

void cap_longrope(double original, DecoderConfig& decoder, std::vector<std::string>& warnings) {
  const auto capped = static_cast<int64_t>(std::clamp(original, 1.0, 1e15));
  if (capped >= decoder.max_context_length) return;
  warnings.push_back(
      fmt::format("rope: LongRoPE changes its frequencies beyond {} tokens, for the whole sequence "
                  "at once; the context length is {} instead of {}",
                  capped, capped, decoder.max_context_length));
  decoder.max_context_length = capped;
}

double yarn_attention_factor(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

void apply_yarn(RopeConfig& rope, double factor, double original_context_length, double beta_fast,
                double beta_slow, bool truncate) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  // The frequency that turns so many times within the original context length.
  const auto correction = [&](double turns) {
    return dim * std::log(original_context_length / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.base));
  };
  double low = correction(beta_fast);
  double high = correction(beta_slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  rope.factors.clear();
  for (int64_t i = 0; i < rope.rotary_dim / 2; ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rope.factors.push_back(1.0 / (ramp / factor + (1 - ramp)));
    if (std::isfinite(rope.factors.back()) && rope.factors.back() > 0) continue;
    throw Error(Code::kInvalidModel,
                fmt::format("rope: YaRN by {} from {} tokens over base {} gives no frequencies",
                            factor, original_context_length, rope.base));
  }
}

void read_hf_rope(const Config& config, const HfRopeDefaults& defaults, DecoderConfig& decoder,
                  std::vector<std::string>& warnings) {
  const int64_t original = defaults.original_context_length;
  Fields fields{config, config.find_object("rope_parameters"),
                original > 0 ? original : decoder.max_context_length};
  if (const auto scaling = config.find_object("rope_scaling")) fields.rope = scaling;
  decoder.ropes = {read_rope(fields, defaults, decoder, warnings)};
}

void read_hf_rope_per_type(const Config& config, double full_base, double sliding_base,
                           DecoderConfig& decoder) {
  const auto both = config.find_object("rope_parameters");
  std::vector<std::string> warnings;
  Fields full{config, both ? both->find_object("full_attention") : std::nullopt,
              decoder.max_context_length};
  Fields sliding{config, both ? both->find_object("sliding_attention") : std::nullopt,
                 decoder.max_context_length};
  if (const auto scaling = config.find_object("rope_scaling")) full.rope = scaling;
  decoder.ropes = {read_rope(full, {.base = full_base}, decoder, warnings),
                   read_rope(sliding, {.base = sliding_base, .base_field = "rope_local_base_freq"},
                             decoder, warnings)};
  if (decoder.ropes[0].factors.empty() && decoder.ropes[1].factors.empty() && warnings.empty()) {
    return;
  }
  hf::unsupported(config.file(), "rope types per layer can be default, linear or llama3");
}

}  // namespace kvern::import
