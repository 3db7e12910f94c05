#include "apps/cli/answer_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity: what cannot be drawn has no log-probability.
Json number(float logprob) {
  return std::isfinite(logprob) ? Json(logprob) : Json(nullptr);
}

Json entry(const TokenLogprob& token) {
  return {{"id", token.id}, {"logprob", number(token.logprob)}};
}

}  // namespace

Json timings_json(const Timings& t, double load_ms) {
  return {{"load_ms", load_ms},
          {"ttft_ms", t.ttft_ms()},
          {"prefill_ms", t.prefill_ms},
          {"decode_ms", t.decode_ms},
          {"prompt_tokens", t.prompt_tokens},
          {"cached_tokens", t.cached_tokens},
          {"answer_tokens", t.answer_tokens},
          {"prefill_tokens_per_second", t.prefill_tokens_per_second},
          {"decode_tokens_per_second", t.decode_tokens_per_second}};
}

Json logprobs_json(const std::vector<TokenLogprobs>& logprobs) {
  Json out = Json::array();
  for (const TokenLogprobs& position : logprobs) {
    Json row = entry(position.token);
    if (!position.top.empty()) {
      row["top"] = Json::array();
      for (const TokenLogprob& token : position.top) row["top"].push_back(entry(token));
    }
    out.push_back(std::move(row));
  }
  return out;
}

Json choice_json(const Collected& collected) {
  Json out = {{"text", collected.answer.text},
              {"ids", collected.answer.ids},
              {"finish_reason", name_of(collected.answer.reason)}};
  if (!collected.answer.message.empty()) out["message"] = collected.answer.message;
  if (!collected.logprobs.empty()) out["logprobs"] = logprobs_json(collected.logprobs);
  return out;
}

}  // namespace kvern::cli
