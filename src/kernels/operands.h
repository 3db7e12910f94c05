// From a program's untyped operands to typed pointers.
#pragma once

#include "base/check.h"
#include "kernels/impl.h"

namespace kvern::kernels {

template <class T>
T* data_of(const Operand& operand) {
  return reinterpret_cast<T*>(operand.data);
}

// From a row to the next in elements of 4 bytes; every activation is f32 or i32.
inline int64_t stride_of(const Operand& operand, int64_t dim) {
  const int64_t stride = operand.row_stride_bytes / 4;
  KVERN_DCHECK(operand.row_stride_bytes % 4 == 0, "row stride {}", operand.row_stride_bytes);
  KVERN_DCHECK(stride >= dim || operand.rows <= 1, "row stride {} < {}", stride, dim);
  return stride;
}

inline void check_operands(const Call& call, const char* family, size_t inputs, size_t outputs) {
  KVERN_CHECK(call.inputs.size() == inputs && call.outputs.size() == outputs,
              "{}: wants {} inputs and {} outputs, got {} and {}", family, inputs, outputs,
              call.inputs.size(), call.outputs.size());
}

}  // namespace kvern::kernels
