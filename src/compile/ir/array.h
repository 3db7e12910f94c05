// A dense array of any ONNX element type: constants of tensor form and the values of its
// evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace kvern::ir {

// Values are those of TensorProto.DataType in the ONNX standard.
enum class ElementType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,  // one byte, 0 or 1
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3Fn = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUint4 = 21,  // in an Array 4-bit elements take one byte each
  kInt4 = 22,
  kFloat4E2M1 = 23,
  // Not ONNX's: an element that says where it comes from (passes/token_form). 24 bytes; only moved.
  kSymbol = 200,
};

// "float", "int64", …: the standard's names in lower case.
std::string_view element_type_name(ElementType type);
std::optional<ElementType> element_type_from_name(std::string_view name);
// Bytes of one element in an Array; 0 for kUndefined and kString.
size_t element_bytes(ElementType type);
bool is_float(ElementType type);    // float, float16, bfloat16, double
bool is_integer(ElementType type);  // signed and unsigned, not bool

// Where a constant lies in the source files, for weights that are never copied.
struct ArrayOrigin {
  std::string name;  // of the initializer
  int32_t file = 0;  // index into the model's files
  uint64_t offset = 0;
};

// Cheap to copy: copies share their elements.
class Array {
 public:
  Array() = default;
  // Zeros. Throws Error(kUnsupported) for types without elements, Error(kOutOfMemory) above
  // kMaxArrayBytes, Error(kInvalidModel) for a negative dim.
  Array(ElementType type, Shape shape);
  // Elements that somebody else keeps: a mapped file. `owner` lives as long as the array.
  static Array view(ElementType type, Shape shape, std::span<const std::byte> bytes,
                    std::shared_ptr<const void> owner, std::optional<ArrayOrigin> origin);
  template <class T>
  static Array of(ElementType type, Shape shape, std::span<const T> values);
  static Array scalar_i64(int64_t value) { return vector_i64_shaped({}, {value}); }
  static Array vector_i64(std::vector<int64_t> values);
  static Array scalar_f32(float value);

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t count() const { return count_; }  // elements
  std::span<const std::byte> bytes() const { return {data_, num_bytes_}; }
  // Copies first where the elements are shared or somebody else's.
  std::span<std::byte> mutable_bytes();
  // The elements as T, whose size must be the type's (KVERN_CHECK).
  template <class T>
  std::span<const T> as() const {
    check_size(sizeof(T));
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(count_)};
  }
  template <class T>
  std::span<T> mutable_as() {
    check_size(sizeof(T));
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<size_t>(count_)};
  }
  // The same elements under another shape of equal count, or another type of equal size.
  Array reshaped(Shape shape) const;
  Array retyped(ElementType type) const;
  const std::optional<ArrayOrigin>& origin() const { return origin_; }

  // Integers and bools of any width as int64; floats of any width as double. Throws
  // Error(kInvalidModel) for the other kind, or when there are more than `max_count`.
  std::vector<int64_t> to_i64(int64_t max_count = int64_t{1} << 24) const;
  std::vector<double> to_f64(int64_t max_count = int64_t{1} << 24) const;
  // Any number type as float32.
  std::vector<float> to_f32() const;

 private:
  static Array vector_i64_shaped(Shape shape, std::vector<int64_t> values);
  void check_size(size_t bytes) const;

  ElementType type_ = ElementType::kUndefined;
  Shape shape_;
  int64_t count_ = 0;
  const std::byte* data_ = nullptr;
  size_t num_bytes_ = 0;
  std::shared_ptr<const void> owner_;
  bool owned_ = false;  // made by us: may be written when nobody shares it
  std::optional<ArrayOrigin> origin_;
};

inline constexpr uint64_t kMaxArrayBytes = uint64_t{4} << 30;

template <class T>
Array Array::of(ElementType type, Shape shape, std::span<const T> values) {
  Array out(type, std::move(shape));
  const std::span<T> to = out.mutable_as<T>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = values[i];
  return out;
}

}  // namespace kvern::ir
