#include "compile/ir/array.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "compile/ir/work_budget.h"
#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::ir {
namespace {

struct TypeRow {
  ElementType type;
  std::string_view name;
  size_t bytes;
};

constexpr TypeRow kTypes[] = {
    {ElementType::kUndefined, "undefined", 0},
    {ElementType::kFloat, "float", 4},
    {ElementType::kUint8, "uint8", 1},
    {ElementType::kInt8, "int8", 1},
    {ElementType::kUint16, "uint16", 2},
    {ElementType::kInt16, "int16", 2},
    {ElementType::kInt32, "int32", 4},
    {ElementType::kInt64, "int64", 8},
    {ElementType::kString, "string", 0},
    {ElementType::kBool, "bool", 1},
    {ElementType::kFloat16, "float16", 2},
    {ElementType::kDouble, "double", 8},
    {ElementType::kUint32, "uint32", 4},
    {ElementType::kUint64, "uint64", 8},
    {ElementType::kComplex64, "complex64", 8},
    {ElementType::kComplex128, "complex128", 16},
    {ElementType::kBfloat16, "bfloat16", 2},
    {ElementType::kFloat8E4M3Fn, "float8e4m3fn", 1},
    {ElementType::kFloat8E4M3Fnuz, "float8e4m3fnuz", 1},
    {ElementType::kFloat8E5M2, "float8e5m2", 1},
    {ElementType::kFloat8E5M2Fnuz, "float8e5m2fnuz", 1},
    {ElementType::kUint4, "uint4", 1},
    {ElementType::kInt4, "int4", 1},
    {ElementType::kFloat4E2M1, "float4e2m1", 1},
    {ElementType::kSymbol, "symbol", 24},
};

const TypeRow* find_row(ElementType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

int64_t checked_count(const Shape& shape) {
  uint64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      throw Error(Code::kInvalidModel,
                  fmt::format("an array of shape {} has a negative dim", to_string(shape)));
    }
    const auto product = checked_mul(count, static_cast<uint64_t>(dim));
    if (!product || *product > (uint64_t{1} << 62)) {
      throw Error(Code::kInvalidModel,
                  fmt::format("an array of shape {} has too many elements", to_string(shape)));
    }
    count = *product;
  }
  return static_cast<int64_t>(count);
}

// The elements of any number type, one by one.
template <class To>
std::vector<To> converted(const Array& array, int64_t max_count) {
  if (array.count() > max_count) {
    throw Error(Code::kInvalidModel, fmt::format("an array of shape {} is too long to be read here",
                                                 to_string(array.shape())));
  }
  std::vector<To> out(static_cast<size_t>(array.count()));
  const auto copy = [&]<class From>(From /*type*/) {
    const std::byte* from = array.bytes().data();
    for (size_t i = 0; i < out.size(); ++i) {
      From value;
      std::memcpy(&value, from + i * sizeof(From), sizeof(From));
      out[i] = static_cast<To>(value);
    }
  };
  const auto copy_half = [&](float (*widen)(uint16_t)) {
    const std::byte* from = array.bytes().data();
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t value = 0;
      std::memcpy(&value, from + i * 2, 2);
      out[i] = static_cast<To>(widen(value));
    }
  };
  switch (array.type()) {
    case ElementType::kFloat:
      copy(float{});
      break;
    case ElementType::kDouble:
      copy(double{});
      break;
    case ElementType::kFloat16:
      copy_half([](uint16_t h) { return f16_to_f32(h); });
      break;
    case ElementType::kBfloat16:
      copy_half([](uint16_t h) { return bf16_to_f32(h); });
      break;
    case ElementType::kUint8:
    case ElementType::kUint4:
    case ElementType::kBool:
      copy(uint8_t{});
      break;
    case ElementType::kInt8:
    case ElementType::kInt4:
      copy(int8_t{});
      break;
    case ElementType::kUint16:
      copy(uint16_t{});
      break;
    case ElementType::kInt16:
      copy(int16_t{});
      break;
    case ElementType::kUint32:
      copy(uint32_t{});
      break;
    case ElementType::kInt32:
      copy(int32_t{});
      break;
    case ElementType::kUint64:
      copy(uint64_t{});
      break;
    case ElementType::kInt64:
      copy(int64_t{});
      break;
    default:
      throw Error(Code::kUnsupported,
                  fmt::format("an array of {} holds no numbers that can be read",
                              element_type_name(array.type())));
  }
  return out;
}

}  // namespace

std::string_view element_type_name(ElementType type) {
  const TypeRow* row = find_row(type);
  return row == nullptr ? "unknown" : row->name;
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

size_t element_bytes(ElementType type) {
  const TypeRow* row = find_row(type);
  return row == nullptr ? 0 : row->bytes;
}

bool is_float(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kFloat16 ||
         type == ElementType::kBfloat16 || type == ElementType::kDouble;
}

bool is_integer(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kUint16:
    case ElementType::kInt16:
    case ElementType::kInt32:
    case ElementType::kInt64:
    case ElementType::kUint32:
    case ElementType::kUint64:
    case ElementType::kUint4:
    case ElementType::kInt4:
      return true;
    default:
      return false;
  }
}

Array::Array(ElementType type, Shape shape)
    : type_(type), shape_(std::move(shape)), count_(checked_count(shape_)), owned_(true) {
  const size_t size = element_bytes(type);
  if (size == 0) {
    throw Error(Code::kUnsupported,
                fmt::format("arrays of {} are not supported", element_type_name(type)));
  }
  const auto bytes = checked_mul(static_cast<uint64_t>(count_), size);
  if (!bytes || *bytes > kMaxArrayBytes) {
    throw Error(Code::kInvalidModel,
                fmt::format("an array {} {} would take more than {} bytes", element_type_name(type),
                            to_string(shape_), kMaxArrayBytes));
  }
  num_bytes_ = *bytes;
  std::shared_ptr<std::byte[]> made = make_elements(num_bytes_, true);
  data_ = made.get();
  owner_ = std::move(made);
}

Array Array::view(ElementType type, Shape shape, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> owner, std::optional<ArrayOrigin> origin) {
  Array out;
  out.type_ = type;
  out.shape_ = std::move(shape);
  out.count_ = checked_count(out.shape_);
  const auto size = checked_mul(static_cast<uint64_t>(out.count_), element_bytes(type));
  KVERN_CHECK(size && *size == bytes.size(), "array {}: {} bytes", to_string(out.shape_),
              bytes.size());
  out.data_ = bytes.data();
  out.num_bytes_ = bytes.size();
  out.owner_ = std::move(owner);
  out.origin_ = std::move(origin);
  return out;
}

Array Array::vector_i64_shaped(Shape shape, std::vector<int64_t> values) {
  return of<int64_t>(ElementType::kInt64, std::move(shape), values);
}

Array Array::vector_i64(std::vector<int64_t> values) {
  Shape shape = {static_cast<int64_t>(values.size())};
  return vector_i64_shaped(std::move(shape), std::move(values));
}

Array Array::scalar_f32(float value) {
  return of<float>(ElementType::kFloat, {}, std::span(&value, 1));
}

std::span<std::byte> Array::mutable_bytes() {
  if (!owned_ || owner_.use_count() > 1) {
    std::shared_ptr<std::byte[]> made = make_elements(num_bytes_, false);
    if (num_bytes_ > 0) std::memcpy(made.get(), data_, num_bytes_);
    data_ = made.get();
    owner_ = std::move(made);
    owned_ = true;
  }
  origin_.reset();
  return {const_cast<std::byte*>(data_), num_bytes_};
}

Array Array::reshaped(Shape shape) const {
  Array out = *this;
  KVERN_CHECK(checked_count(shape) == count_, "reshape {} to {}", to_string(shape_),
              to_string(shape));
  out.shape_ = std::move(shape);
  return out;
}

Array Array::retyped(ElementType type) const {
  KVERN_CHECK(element_bytes(type) == element_bytes(type_), "retype {} to {}",
              element_type_name(type_), element_type_name(type));
  Array out = *this;
  out.type_ = type;
  return out;
}

std::vector<int64_t> Array::to_i64(int64_t max_count) const {
  if (is_float(type_)) {
    throw Error(Code::kInvalidModel,
                fmt::format("integers are wanted, got {}", element_type_name(type_)));
  }
  return converted<int64_t>(*this, max_count);
}

std::vector<double> Array::to_f64(int64_t max_count) const {
  if (!is_float(type_)) {
    throw Error(Code::kInvalidModel,
                fmt::format("floats are wanted, got {}", element_type_name(type_)));
  }
  return converted<double>(*this, max_count);
}

std::vector<float> Array::to_f32() const {
  return converted<float>(*this, int64_t{1} << 40);
}

void Array::check_size(size_t bytes) const {
  KVERN_CHECK(data_ == nullptr || element_bytes(type_) == bytes, "elements of {} read as {} bytes",
              element_type_name(type_), bytes);
}

}  // namespace kvern::ir
