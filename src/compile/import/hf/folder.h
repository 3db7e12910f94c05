// A Hugging Face folder: which files hold the weights, and what each tensor in them is.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "compile/ir/recipe.h"

namespace kvern::import::hf {

// model.safetensors.index.json: tensor name -> file name. Throws Error(kInvalidModel).
std::map<std::string, std::string> read_index(std::string_view text, const std::string& file);

// Named chat templates lie in a folder of their own.
inline constexpr const char* kTemplateFolder = "additional_chat_templates";

struct WeightFiles {
  std::vector<std::string> names;                  // "model-00001-of-00002.safetensors"
  std::vector<std::shared_ptr<MappedFile>> files;  // the same order
  std::vector<ir::WeightSource> tensors;           // those that Kvern can read
  std::vector<ir::WeightSource> foreign;           // names, shapes and files of those it cannot …
  std::vector<std::string> foreign_types;          // … and their dtypes
};

// Maps model.safetensors or the shards of its index. A shard must lie inside the folder, links
// resolved; links of a hub cache (snapshots/REV/x -> blobs/…) may lead into that cache's blobs.
WeightFiles open_weights(const std::string& folder);

// Where a file of the folder can be opened; it must lie inside, as shards must. Throws
// Error(kNotFound | kInvalidModel).
std::string file_of(const std::string& folder, const std::string& name);

// A text file of the folder, or "" when there is none. Throws Error(kIo | kInvalidModel).
std::string read_optional(const std::string& folder, const std::string& name);

}  // namespace kvern::import::hf
