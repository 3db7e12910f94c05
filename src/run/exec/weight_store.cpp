#include "run/exec/weight_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/host_memory.h"
#include "device/cpu/cpu_device.h"
#include "run/exec/synthetic_weights.h"

namespace kvern::exec {
namespace {

// On the CPU the pool copies, so that pages lie where the threads that compute are.
void copy_weights(device::Stream& stream, std::byte* to, std::span<const std::byte> from) {
  if (stream.kind() != device::Kind::kCpu) return stream.copy(to, from.data(), from.size());
  constexpr size_t kPieceBytes = size_t{4} << 20;
  const auto num_pieces = static_cast<int64_t>((from.size() + kPieceBytes - 1) / kPieceBytes);
  static_cast<device::CpuStream&>(stream).pool().parallel_for(num_pieces, [&](int64_t piece, int) {
    const size_t begin = static_cast<size_t>(piece) * kPieceBytes;
    const size_t size = std::min(kPieceBytes, from.size() - begin);
    std::copy_n(from.data() + begin, size, to + begin);
  });
}

// Weights that the plan only names are drawn here, each by one thread.
void draw_weights(device::Stream& stream, const plan::Plan& plan, std::byte* to) {
  KVERN_CHECK(stream.kind() == device::Kind::kCpu, "synthetic weights are drawn on the CPU only");
  const auto count = static_cast<int64_t>(plan.weights.size());
  static_cast<device::CpuStream&>(stream).pool().parallel_for(count, [&](int64_t i, int) {
    const plan::Weight& weight = plan.weights[static_cast<size_t>(i)];
    if (!weight.synthetic) return;
    fill_synthetic(weight, plan.synthetic_seed, {to + weight.offset, weight.size_bytes});
  });
}

}  // namespace

WeightStore::WeightStore(std::shared_ptr<const plan::PlanFile> file, device::Device& device,
                         device::Stream& stream, WeightsMemory memory)
    : file_(std::move(file)), base_(file_->weights().data()) {
  const plan::Plan& plan = file_->plan();
  const bool synthetic = plan::is_synthetic(plan);
  if (memory == WeightsMemory::kMap && device.kind() == device::Kind::kCpu && !synthetic) return;
  const uint64_t bytes = plan::weights_bytes(plan);
  if (synthetic && bytes > static_cast<uint64_t>(physical_memory_bytes())) {
    throw Error(Code::kOutOfMemory, fmt::format("engine: {} bytes of synthetic weights; this "
                                                "machine has {} bytes of memory",
                                                bytes, physical_memory_bytes()));
  }
  copy_ = device.allocate(bytes);
  copy_weights(stream, copy_.data(), file_->weights());
  if (synthetic) draw_weights(stream, plan, copy_.data());
  base_ = copy_.data();
}

const std::byte* WeightStore::weight(size_t index) const {
  return base_ + file_->plan().weights.at(index).offset;
}

}  // namespace kvern::exec
