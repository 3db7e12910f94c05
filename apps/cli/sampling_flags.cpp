#include "apps/cli/sampling_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "apps/cli/output.h"

namespace kvern::cli {
namespace {

float bias_value(const std::string& text) {
  if (text == "-inf") return -std::numeric_limits<float>::infinity();
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? value : std::numeric_limits<float>::quiet_NaN();
}

LogitBias parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  LogitBias out;
  const char* end = text.data() + std::min(equals, text.size());
  const auto [at, error] = std::from_chars(text.data(), end, out.id);
  if (equals != std::string::npos) out.bias = bias_value(text.substr(equals + 1));
  if (equals == std::string::npos || error != std::errc() || at != end || std::isnan(out.bias)) {
    throw Error(Code::kInvalidArgument,
                fmt::format("--logit-bias '{}': wanted a token id and a number, as in 42=-1.5 or "
                            "42=-inf",
                            text));
  }
  return out;
}

template <class T>
void take(T& value, const std::optional<T>& given) {
  if (given) value = *given;
}

}  // namespace

void add_sampling_flags(CLI::App& app, const std::shared_ptr<SamplingFlags>& flags) {
  constexpr const char* kGroup = "Sampling";
  app.add_option("--sampling", flags->preset,
                 "Where to start from: greedy (the likeliest token), or model (what the model's "
                 "makers propose)")
      ->check(CLI::IsMember({"greedy", "model"}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--temperature", flags->temperature, "0: greedy; 1: as the model says")
      ->check(CLI::Range(0.0, 100.0))
      ->group(kGroup);
  app.add_option("--top-k", flags->top_k, "Draw from the k likeliest tokens; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->group(kGroup);
  app.add_option("--top-p", flags->top_p,
                 "Draw from the likeliest tokens whose probabilities reach p")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kGroup);
  app.add_option("--min-p", flags->min_p, "Leave out what is below p times the likeliest token")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kGroup);
  app.add_option("--repetition-penalty", flags->repetition_penalty,
                 "Divide the logits of tokens that were there; 1: none")
      ->group(kGroup);
  app.add_option("--presence-penalty", flags->presence_penalty,
                 "Subtract from tokens that the answer holds; 0: none")
      ->group(kGroup);
  app.add_option("--frequency-penalty", flags->frequency_penalty,
                 "Subtract from tokens as often as the answer holds them; 0: none")
      ->group(kGroup);
  app.add_option("--logit-bias", flags->logit_bias,
                 "ID=BIAS, added to the token's logit; -inf forbids it; may be given again")
      ->allow_extra_args(false)
      ->group(kGroup);
  app.add_option("--seed", flags->seed, "The same seed gives the same answer; default: random")
      ->group(kGroup);
}

Sampling sampling_of(const SamplingFlags& flags, const Sampling& proposed) {
  Sampling sampling = flags.preset == "model" ? proposed : Sampling();
  take(sampling.temperature, flags.temperature);
  take(sampling.top_k, flags.top_k);
  take(sampling.top_p, flags.top_p);
  take(sampling.min_p, flags.min_p);
  take(sampling.repetition_penalty, flags.repetition_penalty);
  take(sampling.presence_penalty, flags.presence_penalty);
  take(sampling.frequency_penalty, flags.frequency_penalty);
  for (const std::string& bias : flags.logit_bias) {
    sampling.logit_bias.push_back(parse_bias(bias));
  }
  sampling.seed = flags.seed;
  return sampling;
}

void warn_of_idle_options(const SamplingFlags& flags, const Sampling& sampling) {
  if (sampling.temperature > 0) return;
  std::string idle;
  const auto add = [&](bool given, const char* name) {
    if (given) idle += (idle.empty() ? "" : ", ") + std::string(name);
  };
  add(flags.top_k.has_value(), "--top-k");
  add(flags.top_p.has_value(), "--top-p");
  add(flags.min_p.has_value(), "--min-p");
  add(flags.seed.has_value(), "--seed");
  if (idle.empty()) return;
  print_error(
      fmt::format("warning: {} change{} nothing: the likeliest token is taken; give "
                  "--temperature above 0",
                  idle, idle.find(',') == std::string::npos ? "s" : ""));
}

}  // namespace kvern::cli
