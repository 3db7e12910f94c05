// safetensors: eight bytes of header length, a JSON header, and the tensors' bytes without gaps.
// The header is checked before anything is used; tensor data is not touched.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile/ir/recipe.h"

namespace kvern::import::hf {

// True when the bytes begin as a safetensors file does.
bool looks_like_safetensors(std::span<const std::byte> bytes);

struct SafetensorsFile {
  // In the order of their offsets, which count from the start of the file.
  std::vector<ir::WeightSource> tensors;
  // Those of a dtype that Kvern does not read (their `type` means nothing), and these dtypes. Files
  // keep masks as bytes, which nobody needs.
  std::vector<ir::WeightSource> foreign;
  std::vector<std::string> foreign_types;
};

// `name`: for messages; `file_index`: WeightSource::file. Throws Error(kInvalidModel) for damage.
SafetensorsFile read_safetensors(std::span<const std::byte> bytes, const std::string& name,
                                 int32_t file_index);

}  // namespace kvern::import::hf
