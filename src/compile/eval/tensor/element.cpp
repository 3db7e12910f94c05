#include "compile/eval/tensor/element.h"

#include <fmt/format.h>

#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::eval {

Array widened(const Array& array) {
  if (!is_half(array.type())) return array;
  Array out(ElementType::kFloat, array.shape());
  const auto from = array.as<uint16_t>();
  const auto to = out.mutable_as<float>();
  if (array.type() == ElementType::kFloat16) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = f16_to_f32(from[i]);
  } else {
    for (size_t i = 0; i < to.size(); ++i) to[i] = bf16_to_f32(from[i]);
  }
  return out;
}

Array narrowed(const Array& array, ElementType type) {
  if (array.type() == type || !is_half(type)) return array;
  Array out(type, array.shape());
  const auto from = array.as<float>();
  const auto to = out.mutable_as<uint16_t>();
  if (type == ElementType::kFloat16) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = f32_to_f16(from[i]);
  } else {
    for (size_t i = 0; i < to.size(); ++i) to[i] = f32_to_bf16(from[i]);
  }
  return out;
}

int64_t normal_axis(const OpCall& call, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    call.fail(fmt::format("axis {} is not in [-{}, {})", axis, rank, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> integers_of(const OpCall& call, size_t index, std::vector<int64_t> otherwise) {
  if (!call.has(index)) return otherwise;
  const Array& array = *call.inputs[index];
  if (!ir::is_integer(array.type()) && array.type() != ElementType::kBool) {
    call.fail(fmt::format("input {} must hold integers, got {}", index,
                          ir::element_type_name(array.type())));
  }
  return array.to_i64();
}

}  // namespace kvern::eval
