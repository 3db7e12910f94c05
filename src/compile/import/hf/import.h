// A Hugging Face folder as a model: config.json, generation_config.json, safetensors, tokenizer.
#pragma once

#include <string>
#include <string_view>

#include "compile/import/hf/folder.h"
#include "compile/import/import.h"

namespace kvern::import::hf {

// The folder at `path`. Throws as load().
ImportedModel import_folder(const std::string& path, const LoadOptions& options);

// A model of the shapes that `config_path` (config.json, or a folder with one) describes, without
// weights: each source stands for numbers that are drawn from `seed` when the plan is loaded.
ImportedModel import_synthetic(const std::string& config_path, uint64_t seed);

// The model that a config.json and tensors make: graph, slots, sizes, stop ids and notes; without
// tokenizer and hash. For tests and fuzzing.
ImportedModel import_config(std::string_view config_json, const WeightFiles& weights);

}  // namespace kvern::import::hf
