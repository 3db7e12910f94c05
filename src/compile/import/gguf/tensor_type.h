// The tensor types that GGUF numbers, and which of them Kvern decodes.
#pragma once

#include <cstdint>
#include <optional>

#include "compile/ir/recipe.h"

namespace kvern::import::gguf {

struct TensorType {
  const char* name;
  std::optional<ir::SourceType> source;  // nothing: known by name, not decoded
};

// nullptr for numbers that the format does not define.
const TensorType* tensor_type(uint32_t number);

}  // namespace kvern::import::gguf
