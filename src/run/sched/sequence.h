// The scheduler's side of a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "run/sched/request.h"

namespace kvern::sched {

struct Sequence {
  explicit Sequence(Request r) : request(std::move(r)), ids(request.prompt_ids) {}

  Request request;
  std::vector<int32_t> ids;     // prompt and answer so far
  int32_t computed = 0;         // tokens whose K and V are in pages
  int32_t scheduled = 0;        // tokens in the batch that runs now
  size_t next_row = 0;          // of export_rows
  int32_t next_prompt_row = 0;  // position whose row was not asked for yet; with prompt_logprobs
  bool started = false;
  bool paused = false;
  bool ended = false;
  bool keeps = request.keep_context;  // its pages stay when it ends

  bool exports() const { return request.purpose == step::Purpose::kExport; }
  int32_t length() const { return static_cast<int32_t>(ids.size()); }
  int32_t remaining() const { return length() - computed - scheduled; }
  int32_t answer_tokens() const {
    return length() - static_cast<int32_t>(request.prompt_ids.size());
  }
  // One token away from its next sample.
  bool decodes() const { return !exports() && started && remaining() == 1 && scheduled == 0; }
  bool stops_at(int32_t id) const {
    return std::find(request.stop_ids.begin(), request.stop_ids.end(), id) !=
           request.stop_ids.end();
  }
  bool caches() const { return request.use_prefix_cache && !request.recompute_context; }
  // How many tokens may come from pages that hold them already: rows that are still wanted come out
  // of computed tokens alone, the next sample's among them.
  int32_t reusable_tokens() const {
    if (request.recompute_context) return 0;
    int32_t most = length() - 1;
    if (exports() && next_row < request.export_rows.size()) {
      most = std::min(most, request.export_rows[next_row]);
    }
    const auto last = static_cast<int32_t>(request.prompt_ids.size()) - 1;
    if (request.prompt_logprobs && next_prompt_row < last) most = std::min(most, next_prompt_row);
    return most;
  }
  // Rows of the next `count` tokens that tell about the prompt's tokens behind them.
  int32_t prompt_rows(int32_t count) const {
    if (!request.prompt_logprobs) return 0;
    const auto last = static_cast<int32_t>(request.prompt_ids.size()) - 1;  // foretells the answer
    return std::max(0, std::min(computed + count, last) - std::max(computed, next_prompt_row));
  }
  // The longest count <= `count` from `computed` on that asks for at most `rows` rows of logits.
  int32_t limit_to_rows(int32_t count, int32_t rows) const {
    if (!exports()) {
      const int32_t first = std::max(computed, next_prompt_row);
      if (prompt_rows(count) > rows) return first + rows - computed;
      return count == remaining() && prompt_rows(count) == rows ? count - 1 : count;
    }
    const size_t beyond = next_row + static_cast<size_t>(rows);
    if (beyond < request.export_rows.size()) {
      return std::min(count, request.export_rows[beyond] - computed);
    }
    if (request.export_rows.empty()) return count;
    return std::min(count, request.export_rows.back() + 1 - computed);
  }
};

}  // namespace kvern::sched
