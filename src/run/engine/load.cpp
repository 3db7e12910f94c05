#include "run/engine/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/host_memory.h"
#include "device/cpu/cpu_device.h"

namespace kvern::engine {
namespace {

// More would only be bookkeeping: far above what a CPU or a GPU serves at once.
constexpr int64_t kMaxSequences = 4096;
// Rows of logits per step beside those of the sequences that sample: 64 rows of 49,152 ids take
// 12 MB; larger vocabularies get fewer rows.
constexpr int64_t kExportRows = 64;
constexpr int64_t kExportBytes = int64_t{64} << 20;

int32_t pick(const char* name, int64_t asked, int64_t from_profile) {
  if (asked < 0 || asked > from_profile) {
    throw Error(Code::kInvalidArgument,
                fmt::format("engine: {} is {}; the plan was built for at most {}", name, asked,
                            from_profile));
  }
  return static_cast<int32_t>(asked == 0 ? from_profile : asked);
}

int32_t pick_max_waiting(int32_t asked) {
  if (asked >= 1) return asked;
  throw Error(Code::kInvalidArgument, fmt::format("engine: max_waiting is {}; at least 1", asked));
}

sched::SchedulerOptions scheduler_options(const plan::Plan& plan, const EngineOptions& options) {
  sched::SchedulerOptions out;
  out.max_tokens_per_step =
      pick("max_tokens_per_step", options.max_tokens_per_step, plan.profile.tokens.max);
  const int64_t most_sequences =
      std::min({plan.profile.sequences.max, kMaxSequences, int64_t{out.max_tokens_per_step}});
  out.max_sequences = pick("max_sequences", options.max_sequences, most_sequences);
  out.prefill_chunk_tokens =
      pick("prefill_chunk_tokens", options.prefill_chunk_tokens, out.max_tokens_per_step);
  const int64_t row_bytes = std::max<int64_t>(1, plan.program.wanted_arena_bytes_per_row);
  out.max_wanted_rows = std::max(
      out.max_sequences, static_cast<int32_t>(std::min(kExportRows, kExportBytes / row_bytes)));
  return out;
}

// What the KV groups cost: those that keep everything by the token, window groups once and for all.
struct KvCost {
  int64_t token_bytes = 0;
  int64_t window_bytes = 0;
};

int64_t window_pages(const plan::KvGroup& group, int32_t max_sequences, int32_t chunk_tokens) {
  const int64_t seen = int64_t{group.window_tokens} - 1 + chunk_tokens;
  return max_sequences * (ceil_div(seen, group.page_tokens) + 1);
}

KvCost kv_cost(const plan::Plan& plan, int32_t max_sequences, int32_t chunk_tokens) {
  KvCost cost;
  for (const plan::KvGroup& group : plan.kv_layout.groups()) {
    if (group.retention == plan::Retention::kWindow) {
      cost.window_bytes += window_pages(group, max_sequences, chunk_tokens) * group.page_bytes;
    } else {
      cost.token_bytes += ceil_div(group.page_bytes, group.page_tokens);
    }
  }
  cost.token_bytes = std::max<int64_t>(1, cost.token_bytes);
  return cost;
}

// Tokens of KV memory: as asked; else every sequence at full length, in half of memory at most.
int64_t capacity_tokens(const plan::Plan& plan, const EngineOptions& options, int32_t max_sequences,
                        int32_t chunk_tokens) {
  const int64_t memory = grantable_memory_bytes();
  const auto [token_bytes, window_bytes] = kv_cost(plan, max_sequences, chunk_tokens);
  if (options.kv_capacity_tokens < 0 || options.kv_capacity_tokens > memory / token_bytes) {
    throw Error(Code::kOutOfMemory,
                fmt::format("engine: {} tokens of KV capacity need {} bytes each; this machine and "
                            "the limits of this process leave {} bytes. Ask for fewer",
                            options.kv_capacity_tokens, token_bytes, memory));
  }
  if (options.kv_capacity_tokens > 0) return options.kv_capacity_tokens;
  const int64_t longest = plan.profile.context_length.max;
  return std::max<int64_t>(
      1, std::min(max_sequences * longest, (free_memory_bytes() / 2 - window_bytes) / token_bytes));
}

std::vector<kv::GroupConfig> kv_groups(const plan::Plan& plan, int64_t tokens,
                                       int32_t max_sequences, int32_t chunk_tokens) {
  std::vector<kv::GroupConfig> out;
  for (const plan::KvGroup& group : plan.kv_layout.groups()) {
    const int32_t window = group.retention == plan::Retention::kWindow ? group.window_tokens : 0;
    // Every sequence may leave its last page unfilled.
    int64_t pages = ceil_div(tokens, group.page_tokens) + max_sequences - 1;
    if (window > 0) pages = std::min(pages, window_pages(group, max_sequences, chunk_tokens));
    if (pages > INT32_MAX) {
      throw Error(Code::kOutOfMemory, fmt::format("engine: {} KV pages; ask for fewer", pages));
    }
    out.push_back({static_cast<int32_t>(pages), group.page_tokens, window});
  }
  return out;
}

std::vector<int32_t> stop_ids(const plan::Plan& plan) {
  std::vector<int32_t> out = plan.generation.stop_ids;
  out.insert(out.end(), plan.text.stop_ids.begin(), plan.text.stop_ids.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

EngineParts load_parts(std::shared_ptr<const plan::PlanFile> file, const EngineOptions& options) {
  const plan::Plan& plan = file->plan();
  if (options.verify) file->verify_weights({});
  EngineParts parts;
  parts.scheduler = scheduler_options(plan, options);
  const int32_t max_sequences = parts.scheduler.max_sequences;
  const int32_t chunk_tokens = parts.scheduler.prefill_chunk_tokens;
  parts.kv_groups = kv_groups(plan, capacity_tokens(plan, options, max_sequences, chunk_tokens),
                              max_sequences, chunk_tokens);
  if (!plan.text.empty()) parts.tokenizer = std::make_shared<const text::Tokenizer>(plan.text);
  parts.model_stop_ids = stop_ids(plan);
  parts.vocabulary_size = plan.vocabulary_size;
  parts.max_context_length = plan.profile.context_length.max;
  parts.prefix_cache = options.prefix_cache;
  parts.max_waiting = pick_max_waiting(options.max_waiting);
  parts.plan_name = plan.model_name.empty() ? plan.family : plan.model_name;
  parts.plan_fingerprint = file->fingerprint();
  parts.layout_hash = plan.kv_layout.hash();

  exec::PlanExecutorOptions exec_options;
  exec_options.weights_memory = options.weights_memory;
  exec_options.plain_kernels = options.plain_kernels;
  for (const kv::GroupConfig& group : parts.kv_groups) {
    exec_options.num_pages.push_back(group.num_pages);
  }
  exec_options.max_tokens = parts.scheduler.max_tokens_per_step;
  exec_options.max_sequences = max_sequences;
  exec_options.max_wanted_rows = parts.scheduler.max_wanted_rows;
  std::shared_ptr<device::Device> device = device::create_cpu_device(options.num_threads);
  parts.executor =
      std::make_unique<exec::PlanExecutor>(std::move(file), std::move(device), exec_options);
  return parts;
}

}  // namespace kvern::engine
