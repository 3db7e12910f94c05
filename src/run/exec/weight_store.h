// The plan's weights where kernels read them: the file's mapping, or a copy of our own.
#pragma once

#include <memory>

#include "device/device.h"
#include "plan/reader.h"
#include "run/exec/plan_executor.h"

namespace kvern::exec {

class WeightStore {
 public:
  WeightStore(std::shared_ptr<const plan::PlanFile> file, device::Device& device,
              device::Stream& stream, WeightsMemory memory);
  const std::byte* weight(size_t index) const;

 private:
  std::shared_ptr<const plan::PlanFile> file_;
  device::Buffer copy_;
  const std::byte* base_ = nullptr;
};

}  // namespace kvern::exec
