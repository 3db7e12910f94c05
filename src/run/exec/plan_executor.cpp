#include "run/exec/plan_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/checked.h"
#include "base/host_memory.h"
#include "run/exec/arena.h"
#include "run/exec/check_program.h"
#include "run/exec/sampler.h"
#include "run/exec/step_inputs.h"
#include "run/exec/tactic_report.h"
#include "run/exec/weight_store.h"

namespace kvern::exec {
namespace {

using plan::OperandKind;
using plan::RowCount;

uint64_t pool_bytes(const plan::KvGroup& group, int32_t num_pages) {
  const auto bytes =
      checked_mul(static_cast<uint64_t>(num_pages), static_cast<uint64_t>(group.page_bytes));
  if (!bytes || num_pages < 0) {
    throw Error(Code::kOutOfMemory, fmt::format("kv: {} pages of {} bytes do not fit any memory",
                                                num_pages, group.page_bytes));
  }
  return *bytes;
}

// Untouched pages cost nothing, so that the system would grant any reservation; what could not be
// used to the full is refused here and not in some later step. Weights that are copied count too;
// those of a mapping can be given up and read again.
void check_memory(const plan::Plan& plan, const PlanExecutorOptions& options) {
  const auto& groups = plan.kv_layout.groups();
  KVERN_CHECK(options.num_pages.size() == groups.size(), "capacity for {} of {} KV groups",
              options.num_pages.size(), groups.size());
  std::optional<uint64_t> pools = 0;
  for (size_t g = 0; g < groups.size() && pools; ++g) {
    pools = checked_add(*pools, pool_bytes(groups[g], options.num_pages[g]));
  }
  const std::optional<uint64_t> arenas =
      Arenas::bytes_for(plan.program, options.max_tokens, options.max_wanted_rows);
  const bool copies = options.weights_memory == WeightsMemory::kCopy || plan::is_synthetic(plan);
  const uint64_t weights = copies ? plan::weights_bytes(plan) : 0;
  std::optional<uint64_t> sum = pools && arenas ? checked_add(*pools, *arenas) : std::nullopt;
  if (sum) sum = checked_add(*sum, weights);
  const auto memory = static_cast<uint64_t>(grantable_memory_bytes());
  if (sum && *sum <= memory) return;
  throw Error(Code::kOutOfMemory,
              fmt::format("engine: {} tokens a step need {} bytes of activations, the KV pages {} "
                          "bytes and a copy of the weights {}; this machine and the limits of this "
                          "process leave {}. Ask for fewer tokens a step or a smaller KV capacity",
                          options.max_tokens, arenas.value_or(UINT64_MAX),
                          pools.value_or(UINT64_MAX), weights, memory));
}

// Memory is looked at before the weights are copied.
std::vector<std::unique_ptr<kernels::PreparedOp>> prepare(const plan::Plan& plan,
                                                          const PlanExecutorOptions& options) {
  auto ops = prepare_program(plan, options.plain_kernels);
  check_memory(plan, options);
  return ops;
}

}  // namespace

struct PlanExecutor::State {
  std::shared_ptr<const plan::PlanFile> file;
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Stream> stream;
  PlanExecutorOptions options;
  const plan::Plan& plan;
  std::vector<std::unique_ptr<kernels::PreparedOp>> ops;
  WeightStore weights;
  size_t logits_buffer;
  std::vector<device::Buffer> pool_memory;
  std::vector<KvPoolView> pools;
  Arenas arenas;
  StepInputs inputs;
  Sampler sampler;
  std::vector<kernels::Operand> input_operands, output_operands;

  State(std::shared_ptr<const plan::PlanFile> f, std::shared_ptr<device::Device> d,
        const PlanExecutorOptions& o)
      : file(std::move(f)),
        device(std::move(d)),
        stream(device->create_stream()),
        options(o),
        plan(file->plan()),
        ops(prepare(plan, o)),
        weights(file, *device, *stream, o.weights_memory),
        logits_buffer(static_cast<size_t>(plan.program.outputs[find_logits(plan)].buffer)),
        arenas(plan.program),
        sampler(plan.vocabulary_size) {
    arenas.reserve(*device, options.max_tokens, options.max_wanted_rows);
    make_pools();
  }

  void make_pools();
  std::span<std::byte> page_memory(size_t kv_group, kv::PageId page) const;
  void copy_pages(const step::StepBatch& batch);
  kernels::Operand resolve(const plan::OperandRef& ref);
  const std::vector<int32_t>& step_input(const std::string& name) const;
  void launch(size_t index);
  void check_limits(const step::StepBatch& batch) const;
  step::StepResult collect(const step::StepBatch& batch);
};

void PlanExecutor::State::make_pools() {
  const auto& groups = plan.kv_layout.groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    pool_memory.push_back(device->allocate(pool_bytes(groups[g], options.num_pages[g])));
    pools.push_back(
        {pool_memory[g].data(), groups[g].page_bytes, groups[g].page_tokens, options.num_pages[g],
         groups[g].retention == plan::Retention::kWindow ? groups[g].window_tokens : 0});
  }
}

std::span<std::byte> PlanExecutor::State::page_memory(size_t kv_group, kv::PageId page) const {
  KVERN_CHECK(kv_group < pools.size(), "KV group {} of {}", kv_group, pools.size());
  const KvPoolView& pool = pools[kv_group];
  KVERN_CHECK(page.value >= 0 && page.value < pool.num_pages, "page {} of {}", page.value,
              pool.num_pages);
  return {pool.base + page.value * pool.page_bytes, static_cast<size_t>(pool.page_bytes)};
}

void PlanExecutor::State::copy_pages(const step::StepBatch& batch) {
  for (const step::PageCopy& copy : batch.page_copies) {
    const auto g = static_cast<size_t>(copy.kv_group);
    const std::span<std::byte> to = page_memory(g, copy.dst);
    stream->copy(to.data(), page_memory(g, copy.src).data(), to.size());
  }
}

const std::vector<int32_t>& PlanExecutor::State::step_input(const std::string& name) const {
  if (name == "ids") return inputs.ids();
  if (name == "positions") return inputs.positions();
  KVERN_CHECK(name == "wanted", "step input '{}'", name);
  return inputs.wanted();
}

kernels::Operand PlanExecutor::State::resolve(const plan::OperandRef& ref) {
  const auto index = static_cast<size_t>(ref.index);
  if (ref.kind == OperandKind::kBuffer) {
    return arenas.operand(plan.program.buffers[index], ref.offset_bytes);
  }
  if (ref.kind == OperandKind::kWeight) {
    // Kernels read weights only; Operand serves outputs too and is therefore not const.
    return {const_cast<std::byte*>(weights.weight(index)), plan.weights[index].shape[0], 0};
  }
  const std::vector<int32_t>& values = step_input(plan.program.step_inputs[index].name);
  return {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data())),
          static_cast<int64_t>(values.size()), sizeof(int32_t)};
}

void PlanExecutor::State::launch(size_t index) {
  const plan::Instruction& instruction = plan.program.instructions[index];
  input_operands.clear();
  output_operands.clear();
  for (const plan::OperandRef& ref : instruction.inputs) input_operands.push_back(resolve(ref));
  for (const plan::OperandRef& ref : instruction.outputs) output_operands.push_back(resolve(ref));
  // A step that wants no logits has nothing to do behind the last gather_rows.
  if (!output_operands.empty() && output_operands[0].rows == 0) return;
  ops[index]->run({input_operands, output_operands, &inputs.view(), stream.get()});
}

void PlanExecutor::State::check_limits(const step::StepBatch& batch) const {
  const auto wanted = static_cast<int64_t>(inputs.wanted().size());
  KVERN_CHECK(batch.num_tokens() <= options.max_tokens &&
                  static_cast<int64_t>(batch.sequences.size()) <= options.max_sequences &&
                  wanted <= options.max_wanted_rows,
              "a step of {} tokens, {} sequences and {} rows of logits", batch.num_tokens(),
              batch.sequences.size(), wanted);
  KVERN_CHECK(batch.extra_inputs.empty() && batch.extra_outputs.empty(),
              "no plan has extra tensors yet");
}

step::StepResult PlanExecutor::State::collect(const step::StepBatch& batch) {
  const kernels::Operand logits = arenas.operand(plan.program.buffers[logits_buffer], 0);
  const auto vocabulary = static_cast<size_t>(plan.vocabulary_size);
  step::StepResult result;
  size_t row = 0;
  for (const step::SequenceInput& part : batch.sequences) {
    step::SequenceResult& out = result.sequences.emplace_back();
    out.seq = part.seq;
    size_t num_rows = part.logits == step::LogitsWanted::kLast ? 1 : 0;
    if (part.logits == step::LogitsWanted::kList) num_rows = part.logits_rows.size();
    if (part.purpose == step::Purpose::kExport) {
      out.logits.resize(num_rows * vocabulary);
      for (size_t r = 0; r < num_rows; ++r) {
        stream->copy(out.logits.data() + r * vocabulary,
                     logits.data + static_cast<int64_t>(row + r) * logits.row_stride_bytes,
                     vocabulary * sizeof(float));
      }
    }
    row += num_rows;
  }
  sampler.run(batch, logits, *stream, result);
  return result;
}

PlanExecutor::PlanExecutor(std::shared_ptr<const plan::PlanFile> file,
                           std::shared_ptr<device::Device> device,
                           const PlanExecutorOptions& options)
    : state_(std::make_unique<State>(std::move(file), std::move(device), options)) {}

PlanExecutor::~PlanExecutor() = default;

step::StepResult PlanExecutor::run(const step::StepBatch& batch, const kv::Lease& lease) {
  State& s = *state_;
  s.sampler.update(batch);
  if (batch.sequences.empty()) return {};
  s.inputs.fill(batch, lease, s.sampler.last_samples(), s.pools, s.plan.vocabulary_size);
  s.check_limits(batch);
  s.copy_pages(batch);
  s.arenas.set_rows(static_cast<int64_t>(s.inputs.ids().size()),
                    static_cast<int64_t>(s.inputs.wanted().size()));
  for (size_t i = 0; i < s.ops.size(); ++i) s.launch(i);
  s.stream->synchronize();
  return s.collect(batch);
}

int64_t PlanExecutor::page_bytes(size_t kv_group) const {
  return state_->pools.at(kv_group).page_bytes;
}

void PlanExecutor::export_page(size_t kv_group, kv::PageId page, PageTokens tokens,
                               std::span<std::byte> to) {
  const std::span<std::byte> from = state_->page_memory(kv_group, page);
  const plan::KvGroup& group = state_->plan.kv_layout.groups()[kv_group];
  KVERN_CHECK(to.size() == from.size() && tokens.begin >= 0 && tokens.begin <= tokens.end &&
              tokens.end <= group.page_tokens);
  std::fill(to.begin(), to.end(), std::byte{});
  const auto copy = [&](int64_t offset, int64_t token_bytes) {
    const auto first = static_cast<size_t>(offset + tokens.begin * token_bytes);
    const auto size = static_cast<size_t>((tokens.end - tokens.begin) * token_bytes);
    if (size > 0) state_->stream->copy(to.data() + first, from.data() + first, size);
  };
  for (const int32_t slot : group.slots) {
    const plan::KvPlacement& at = state_->plan.kv_layout.placement(slot);
    const int32_t heads = state_->plan.kv_layout.slots()[static_cast<size_t>(slot)].kv_heads;
    for (int32_t head = 0; head < heads; ++head) {
      const int64_t k = at.k_offset + head * at.k_head_bytes;
      const int64_t v = at.v_offset + head * at.v_head_bytes;
      copy(k, at.k_token_bytes);
      copy(k + at.k_scale_offset, at.k_scale_token_bytes);
      copy(v, at.v_token_bytes);
      copy(v + at.v_scale_offset, at.v_scale_token_bytes);
    }
  }
  state_->stream->synchronize();
}

void PlanExecutor::import_page(size_t kv_group, kv::PageId page, std::span<const std::byte> from) {
  const std::span<std::byte> to = state_->page_memory(kv_group, page);
  KVERN_CHECK(to.size() == from.size());
  state_->stream->copy(to.data(), from.data(), to.size());
  state_->stream->synchronize();
}

std::vector<InstructionInfo> PlanExecutor::instructions() const {
  std::vector<InstructionInfo> out;
  for (size_t i = 0; i < state_->ops.size(); ++i) {
    const plan::Instruction& instruction = state_->plan.program.instructions[i];
    out.push_back({instruction.source, state_->ops[i]->implementation(), state_->ops[i]->numerics(),
                   better_than(instruction, state_->ops[i]->implementation())});
  }
  return out;
}

int64_t PlanExecutor::kv_pool_bytes() const {
  int64_t sum = 0;
  for (const device::Buffer& memory : state_->pool_memory) {
    sum += static_cast<int64_t>(memory.size_bytes());
  }
  return sum;
}

int64_t PlanExecutor::arena_bytes() const {
  return state_->arenas.size_bytes();
}

}  // namespace kvern::exec
