// The batched sampler: one token id per row of logits. Not an op of programs; the executor calls
// it.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace kvern::kernels {

struct ArgmaxArgs {
  const float* logits;  // [rows, vocabulary], rows `stride` elements apart
  int64_t rows;
  int64_t vocabulary;
  int64_t stride;
  int32_t* ids;  // [rows]: index of the largest, the lowest of equal ones; NaN never wins
  device::Stream* stream;
};

void argmax_cpu(const ArgmaxArgs& args);

}  // namespace kvern::kernels
