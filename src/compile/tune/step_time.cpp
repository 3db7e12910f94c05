#include "compile/tune/step_time.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "device/cpu/cpu_device.h"
#include "kernels/family.h"

namespace kvern::tune {
namespace {

constexpr uint64_t kWeightPool = uint64_t{256} << 20;
constexpr int64_t kPaddedRows = 16;  // as the executor's arenas
constexpr int kRuns = 5;

// One sequence with one new token, its pages one behind the other.
class OneToken {
 public:
  OneToken(device::Device& device, const plan::KvLayout& layout, int64_t context_tokens)
      : context_start_(static_cast<int32_t>(context_tokens - 1)) {
    const size_t num_groups = layout.groups().size();
    tables_.resize(num_groups);
    offsets_.resize(num_groups);
    for (size_t g = 0; g < num_groups; ++g) {
      const plan::KvGroup& group = layout.groups()[g];
      const auto pages =
          static_cast<int32_t>((context_tokens + group.page_tokens - 1) / group.page_tokens);
      for (int32_t page = 0; page < pages; ++page) tables_[g].push_back(page);
      offsets_[g] = {0, pages};
      memory_.push_back(device.allocate(static_cast<size_t>(pages * group.page_bytes)));
      std::memset(memory_.back().data(), 0, memory_.back().size_bytes());
      pools_.push_back({memory_.back().data(), group.page_bytes, group.page_tokens, pages,
                        tables_[g].data(), offsets_[g].data()});
    }
    view_ = {1, 1, token_offset_, &context_start_, pools_};
  }
  OneToken(const OneToken&) = delete;
  OneToken& operator=(const OneToken&) = delete;

  const kernels::StepView& view() const { return view_; }
  int32_t position() const { return context_start_; }

 private:
  int32_t token_offset_[2] = {0, 1};
  int32_t context_start_;
  std::vector<std::vector<int32_t>> tables_, offsets_;
  std::vector<device::Buffer> memory_;
  std::vector<kernels::KvPages> pools_;
  kernels::StepView view_;
};

class StepTimer {
 public:
  StepTimer(const plan::Program& program, const std::vector<plan::Weight>& weights,
            const plan::KvLayout& layout, int64_t context_tokens)
      : program_(program),
        weights_(weights),
        device_(device::create_cpu_device(0)),
        stream_(device_->create_stream()),
        token_(*device_, layout, context_tokens) {
    arenas_[0] = zeros(program.token_arena_bytes_per_row * kPaddedRows);
    arenas_[1] = zeros(program.wanted_arena_bytes_per_row * kPaddedRows);
    place_weights();
    for (const plan::StepInput& input : program.step_inputs) {
      step_inputs_.push_back(input.name == "positions" ? token_.position() : 0);
    }
    for (const plan::Instruction& instruction : program.instructions) {
      const kernels::Family* family = kernels::find_family(instruction.family);
      KVERN_CHECK(family != nullptr, "no kernel family '{}'", instruction.family);
      ops_.push_back(family->prepare(instruction.desc, {instruction.tactic, false}));
    }
  }

  std::vector<double> run() {
    std::vector<double> best(ops_.size(), 1e30);
    for (int run = 0; run < kRuns; ++run) {
      for (size_t i = 0; i < ops_.size(); ++i) best[i] = std::min(best[i], time_one(i));
    }
    return best;
  }

 private:
  device::Buffer zeros(int64_t bytes) {
    device::Buffer out = device_->allocate(static_cast<size_t>(std::max<int64_t>(bytes, 64)));
    std::memset(out.data(), 0, out.size_bytes());
    return out;
  }

  // One behind the other, from the beginning again where the pool ends.
  void place_weights() {
    uint64_t largest = 0, all = 0;
    for (const plan::Weight& weight : weights_) {
      largest = std::max(largest, weight.size_bytes);
      all += (weight.size_bytes + 63) / 64 * 64;
    }
    const uint64_t bytes = std::max(largest, std::min(all, kWeightPool));
    pool_ = zeros(static_cast<int64_t>(bytes));
    uint64_t at = 0;
    for (const plan::Weight& weight : weights_) {
      if (at + weight.size_bytes > bytes) at = 0;
      places_.push_back(at);
      at += (weight.size_bytes + 63) / 64 * 64;
    }
  }

  kernels::Operand resolve(const plan::OperandRef& ref) {
    const auto index = static_cast<size_t>(ref.index);
    if (ref.kind == plan::OperandKind::kBuffer) {
      const plan::BufferPlace& place = program_.buffers[index];
      std::byte* arena = arenas_[place.rows == plan::RowCount::kTokens ? 0 : 1].data();
      return {arena + place.offset_per_row * kPaddedRows + ref.offset_bytes, 1, place.row_bytes};
    }
    if (ref.kind == plan::OperandKind::kWeight) {
      return {pool_.data() + places_[index], weights_[index].shape[0], 0};
    }
    return {reinterpret_cast<std::byte*>(&step_inputs_[index]), 1, sizeof(int32_t)};
  }

  double time_one(size_t index) {
    const plan::Instruction& instruction = program_.instructions[index];
    std::vector<kernels::Operand> inputs, outputs;
    for (const plan::OperandRef& ref : instruction.inputs) inputs.push_back(resolve(ref));
    for (const plan::OperandRef& ref : instruction.outputs) outputs.push_back(resolve(ref));
    const auto begin = std::chrono::steady_clock::now();
    ops_[index]->run({inputs, outputs, &token_.view(), stream_.get()});
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count();
  }

  const plan::Program& program_;
  const std::vector<plan::Weight>& weights_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  OneToken token_;
  device::Buffer arenas_[2];
  device::Buffer pool_;
  std::vector<uint64_t> places_;  // of weights in the pool
  std::vector<int32_t> step_inputs_;
  std::vector<std::unique_ptr<kernels::PreparedOp>> ops_;
};

}  // namespace

std::vector<double> time_decode_step(const plan::Program& program,
                                     const std::vector<plan::Weight>& weights,
                                     const plan::KvLayout& layout, int64_t context_tokens) {
  return StepTimer(program, weights, layout, context_tokens).run();
}

}  // namespace kvern::tune
