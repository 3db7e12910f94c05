// Model files in; a graph that reads like the paper, weight recipes and a TextModel out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "compile/import/config_facts.h"
#include "compile/ir/graph.h"
#include "compile/ir/tensor_graph.h"
#include "text/text_model.h"

namespace kvern::import {

struct SlotInfo {  // one K/V store of the model, for KvLayout
  std::vector<int64_t> layers;
  int32_t kv_heads = 0;
  int32_t dim_k = 0;
  int32_t dim_v = 0;
  int32_t window_tokens = 0;  // 0: all tokens are kept
  std::string position_scheme;
};

// What happened to one tensor of the file.
struct TensorNote {
  std::string name;
  std::string source_type;  // "Q4_1"
  Shape shape;
  std::string note;  // "unused: …", "" when plainly taken
};

// What the model's makers sample with. temperature 0: they propose greedy decoding.
struct GenerationDefaults {
  double temperature = 0.0;
  double top_p = 1.0;
  int64_t top_k = 0;  // 0: all
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

struct ImportedModel {
  ir::Graph graph;
  // Set by importers of tensor form (ONNX): `graph` (but for its files) and `slots` are empty until
  // passes/token_form made them.
  std::shared_ptr<ir::TensorModel> tensor;
  std::optional<ConfigFacts> config;  // of tensor form: what a config.json beside the file says
  text::TextModel text;               // empty when the files hold no tokenizer
  std::vector<SlotInfo> slots;        // index = the graph's slot numbers
  std::vector<std::shared_ptr<MappedFile>> files;  // by Graph::files
  std::string family;
  std::string name;         // general.name or the file's stem
  std::string source_hash;  // xxh3 of names, types, shapes and bytes of all tensors, hex
  int64_t vocabulary_size = 0;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_parameters = 0;
  int64_t max_context_length = 0;  // what the model was trained for; 0: an ONNX file does not say
  std::vector<int32_t> stop_ids;
  GenerationDefaults generation;
  std::vector<TensorNote> tensors;
  std::vector<std::string> warnings;
  // The sources hold no bytes: weights are drawn from this seed when the plan is loaded.
  std::optional<uint64_t> synthetic_seed;
};

struct LoadOptions {
  uint64_t seed = 0;  // of "synthetic:CONFIG.json"
  // progress(done_bytes, total_bytes) while tensors are hashed; may be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

// A GGUF file, an ONNX file, a Hugging Face folder (config.json, safetensors), or a folder with an
// ONNX file; where a folder has both, its safetensors are read. Recognises the format by content.
// Throws Error(kNotFound | kIo | kInvalidModel | kUnsupported).
ImportedModel load(const std::string& path, const LoadOptions& options = {});

}  // namespace kvern::import
