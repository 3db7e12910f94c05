// Types of the IR's values: tensors whose dims are constants or named symbols, and `!kv`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/quant_format.h"
#include "tensor/shape.h"

namespace kvern::ir {

// A constant (`576`) or a symbol (`tokens`). Two symbols are equal when their names are.
class Dim {
 public:
  Dim(int64_t value) : value_(value) {}                    // NOLINT: reads as a number
  Dim(std::string symbol) : symbol_(std::move(symbol)) {}  // NOLINT
  Dim(const char* symbol) : symbol_(symbol) {}             // NOLINT
  bool is_constant() const { return symbol_.empty(); }
  int64_t value() const { return value_; }               // of a constant
  const std::string& symbol() const { return symbol_; }  // of a symbol
  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  int64_t value_ = 0;
  std::string symbol_;
};

// The symbols of token form. `wanted` counts the rows whose logits the step asks for.
inline constexpr const char* kTokens = "tokens";
inline constexpr const char* kWanted = "wanted";

struct Type {
  enum class Kind : uint8_t { kTensor, kKv };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kF32;
  std::vector<Dim> dims;

  static Type tensor(DType dtype, std::vector<Dim> dims) {
    return {Kind::kTensor, dtype, std::move(dims)};
  }
  static Type kv() { return {Kind::kKv, DType::kF32, {}}; }
  bool is_kv() const { return kind == Kind::kKv; }
  // Of a tensor whose dims are all constant.
  Shape constant_shape() const;
  bool all_constant() const;
  friend bool operator==(const Type&, const Type&) = default;
};

// "f32[tokens, 576]", "!kv"
using kvern::to_string;  // of shapes and formats: the overload below would hide them
std::string to_string(const Type& type);

}  // namespace kvern::ir
