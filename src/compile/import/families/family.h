// Every model family: what each file format calls it, and how its files become a graph.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compile/import/families/weight_set.h"
#include "compile/import/import.h"

namespace kvern::import {

namespace gguf {
struct File;
}
namespace hf {
class Config;
}

// Both readers read the configuration, bind every weight and build model.graph; they fill the
// model's slots and sizes. Throw Error(kInvalidModel | kUnsupported).
using FromGguf = void (*)(const gguf::File& file, WeightSet& weights, ImportedModel& model);
using FromHf = void (*)(const hf::Config& config, WeightSet& weights, ImportedModel& model);

struct Family {
  const char* name;               // "gemma3"
  const char* gguf_architecture;  // general.architecture; nullptr: GGUF has no name for it
  const char* hf_model_type;      // config.json's model_type
  FromGguf from_gguf;
  FromHf from_hf;
};

std::span<const Family> all_families();
// nullptr when no family has that name.
const Family* family_of_gguf(std::string_view architecture);
const Family* family_of_hf(std::string_view model_type);

// One file each: <family>.cpp.
void llama_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void llama_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void mistral_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void qwen2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void qwen2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void qwen3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void qwen3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void gemma2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void gemma2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void gemma3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void gemma3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void phi3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void phi3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void olmo2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void olmo2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void granite_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void granite_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void smollm3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void smollm3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void gpt2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void gpt2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);
void gpt_neox_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);
void gpt_neox_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model);

}  // namespace kvern::import
