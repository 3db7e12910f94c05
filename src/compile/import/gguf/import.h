// A GGUF file as an ImportedModel.
#pragma once

#include <span>
#include <string>

#include "compile/import/import.h"

namespace kvern::import::gguf {

// `bytes`: the whole file, called `name` in messages and in the graph. The caller adds the mapping
// to ImportedModel::files.
ImportedModel import_bytes(std::span<const std::byte> bytes, const std::string& name,
                           const LoadOptions& options);

}  // namespace kvern::import::gguf
