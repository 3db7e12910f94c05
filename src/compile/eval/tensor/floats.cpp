#include "compile/eval/tensor/floats.h"

#include <fmt/format.h>

#include "compile/eval/tensor/element.h"
#include "kvern/error.h"

namespace kvern::eval {

Array to_floats(const Array& array) {
  if (array.type() == ElementType::kFloat) return array;
  if (is_half(array.type())) return widened(array);
  const std::vector<float> values = array.to_f32();
  return Array::of<float>(ElementType::kFloat, array.shape(), values);
}

Array from_floats(const Array& array, ElementType type) {
  if (type == ElementType::kFloat) return array;
  if (is_half(type)) return narrowed(array, type);
  if (type != ElementType::kDouble) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: floats are wanted as {}", ir::element_type_name(type)));
  }
  Array out(type, array.shape());
  const auto from = array.as<float>();
  const auto to = out.mutable_as<double>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[i];
  return out;
}

Array floats_in(const OpCall& call, size_t index) {
  const Array& array = call.in(index);
  if (!ir::is_float(array.type())) {
    call.fail(fmt::format("input {} must hold floats, got {}", index,
                          ir::element_type_name(array.type())));
  }
  return to_floats(array);
}

Array floats_in(const OpCall& call, size_t index, const Shape& shape) {
  Array out = floats_in(call, index);
  if (out.shape() != shape) {
    call.fail(fmt::format("input {} has shape {}, wanted {}", index, to_string(out.shape()),
                          to_string(shape)));
  }
  return out;
}

}  // namespace kvern::eval
