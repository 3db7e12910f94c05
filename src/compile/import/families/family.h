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

struct Family {
  const char* name;               // "llama"
  const char* gguf_architecture;  // general.architecture
  // Reads the configuration, binds every weight and builds model.graph; fills the model's slots and
  // sizes. Throws Error(kInvalidModel | kUnsupported).
  void (*from_gguf)(const gguf::File& file, WeightSet& weights, ImportedModel& model);
};

std::span<const Family> all_families();
// nullptr when no family has that architecture.
const Family* family_of_gguf(std::string_view architecture);

void llama_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model);

}  // namespace kvern::import
