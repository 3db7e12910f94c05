// GGUF v2 and v3, little-endian: header, metadata and tensor table, all checked before anything is
// used. Tensor data is not touched.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile/import/gguf/metadata.h"
#include "compile/ir/recipe.h"

namespace kvern::import::gguf {

struct File {
  std::string name;                  // for messages
  std::span<const std::byte> bytes;  // the whole file
  uint32_t version = 0;
  Metadata metadata;
  std::vector<ir::WeightSource> tensors;  // offsets from the start of the file; rows outermost
};

// True when the bytes begin as a GGUF file does.
bool looks_like_gguf(std::span<const std::byte> bytes);

// `bytes` must outlive the result. Throws Error(kInvalidModel) for damage, Error(kUnsupported) for
// a version, byte order or tensor type that Kvern does not read.
File read(std::span<const std::byte> bytes, const std::string& name);

}  // namespace kvern::import::gguf
