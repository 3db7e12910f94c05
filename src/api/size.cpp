// propose_size: from the lengths of a load to context length, pages and memory.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kvern/build.h"
#include "plan/reader.h"

namespace kvern {
namespace {

using Lengths = std::vector<int64_t>;  // ascending

int64_t percentile(const Lengths& sorted, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[at];
}

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Bytes of the pages that `tokens` tokens of one sequence hold. A window keeps its own tokens and
// the page that it slides over.
int64_t page_bytes_of(const plan::KvLayout& layout, int64_t tokens) {
  int64_t sum = 0;
  for (const plan::KvGroup& group : layout.groups()) {
    int64_t pages = (tokens + group.page_tokens - 1) / group.page_tokens;
    if (group.retention == plan::Retention::kWindow) {
      pages = std::min<int64_t>(pages, group.window_tokens / group.page_tokens + 2);
    }
    sum += pages * group.page_bytes;
  }
  return sum;
}

// Of one request over its life: the prompt at once, the answer token by token.
double mean_bytes_of(const plan::KvLayout& layout, const RequestLengths& request) {
  const int64_t first = page_bytes_of(layout, request.prompt_tokens);
  const int64_t last = page_bytes_of(layout, request.prompt_tokens + request.answer_tokens);
  return static_cast<double>(first + last) / 2;
}

Lengths total_lengths(const std::vector<RequestLengths>& trace) {
  if (trace.empty()) throw Error(Code::kInvalidArgument, "the trace holds no request");
  Lengths lengths;
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto [prompt, answer] = trace[i];
    if (prompt < 1 || answer < 0 || prompt > kMaxTraceTokens || answer > kMaxTraceTokens) {
      throw Error(Code::kInvalidArgument,
                  fmt::format("request {} of the trace has {} prompt and {} answer tokens; 1 to {} "
                              "and 0 to {} are possible",
                              i + 1, prompt, answer, kMaxTraceTokens, kMaxTraceTokens));
    }
    lengths.push_back(prompt + answer);
  }
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

int64_t sequences_within(uint64_t memory_bytes, double bytes_each) {
  return bytes_each <= 0 ? 0 : static_cast<int64_t>(static_cast<double>(memory_bytes) / bytes_each);
}

}  // namespace

SizeProposal propose_size(const std::string& plan_path, const std::vector<RequestLengths>& trace,
                          const SizeOptions& options) {
  const plan::PlanFile file(plan_path);
  const plan::Plan& plan = file.plan();
  const Lengths lengths = total_lengths(trace);
  SizeProposal out;
  out.requests = static_cast<int64_t>(trace.size());
  out.p50_tokens = percentile(lengths, 0.50);
  out.p95_tokens = percentile(lengths, 0.95);
  out.p99_tokens = percentile(lengths, 0.99);
  out.max_tokens = lengths.back();
  out.plan_context_length = plan.profile.context_length.max;
  out.beyond_plan = std::count_if(lengths.begin(), lengths.end(),
                                  [&](int64_t n) { return n > out.plan_context_length; });
  out.context_length = round_up(out.max_tokens, 256);

  double mean = 0;
  for (const RequestLengths& request : trace) mean += mean_bytes_of(plan.kv_layout, request);
  out.mean_sequence_bytes = static_cast<uint64_t>(mean / static_cast<double>(trace.size()));
  out.p95_sequence_bytes = static_cast<uint64_t>(page_bytes_of(plan.kv_layout, out.p95_tokens));
  out.max_sequence_bytes = static_cast<uint64_t>(page_bytes_of(plan.kv_layout, out.max_tokens));

  const auto activations = [&](int64_t sequences) {
    return static_cast<uint64_t>(plan.program.token_arena_bytes_per_row * plan.profile.tokens.max +
                                 plan.program.wanted_arena_bytes_per_row *
                                     std::max<int64_t>(sequences, 64));
  };
  out.weight_bytes = plan::weights_bytes(plan);
  const auto mean_bytes = static_cast<double>(out.mean_sequence_bytes);
  if (options.sequences > 0) {
    out.sequences = options.sequences;
    // All at their mean, and room for one to reach its end: below that the engine preempts.
    out.kv_bytes = static_cast<uint64_t>(mean_bytes * out.sequences) + out.max_sequence_bytes;
  } else {
    const uint64_t fixed = out.weight_bytes + activations(plan.profile.sequences.max);
    if (options.memory_bytes <= fixed) {
      throw Error(Code::kInvalidArgument,
                  fmt::format("{} bytes of memory do not hold the plan's weights and activations, "
                              "{} bytes",
                              options.memory_bytes, fixed));
    }
    out.kv_bytes = options.memory_bytes - fixed;
    out.sequences = sequences_within(out.kv_bytes, mean_bytes);
  }
  out.sequences_at_p95 =
      sequences_within(out.kv_bytes, static_cast<double>(out.p95_sequence_bytes));
  out.sequences_at_max =
      sequences_within(out.kv_bytes, static_cast<double>(out.max_sequence_bytes));
  out.kv_capacity_tokens =
      static_cast<int64_t>(out.kv_bytes / static_cast<uint64_t>(plan.kv_layout.bytes_per_token()));
  out.activation_bytes = activations(out.sequences);
  out.memory_bytes = out.weight_bytes + out.kv_bytes + out.activation_bytes;
  return out;
}

}  // namespace kvern
