#include "run/exec/weight_store.h"

#include <algorithm>

#include "device/cpu/cpu_device.h"

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

}  // namespace

WeightStore::WeightStore(std::shared_ptr<const plan::PlanFile> file, device::Device& device,
                         device::Stream& stream, WeightsMemory memory)
    : file_(std::move(file)), base_(file_->weights().data()) {
  if (memory == WeightsMemory::kMap && device.kind() == device::Kind::kCpu) return;
  const std::span<const std::byte> weights = file_->weights();
  copy_ = device.allocate(weights.size());
  copy_weights(stream, copy_.data(), weights);
  base_ = copy_.data();
}

const std::byte* WeightStore::weight(size_t index) const {
  return base_ + file_->plan().weights.at(index).offset;
}

}  // namespace kvern::exec
