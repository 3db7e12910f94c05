// The plan: everything that the runtime knows of a model. Written by the compiler, read by the
// runtime.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/kv_layout.h"
#include "plan/program.h"
#include "tensor/quant_format.h"
#include "tensor/shape.h"
#include "text/text_model.h"

namespace kvern::plan {

inline constexpr uint32_t kFormatVersion = 1;

struct Range {
  int64_t min = 1, opt = 1, max = 1;
};

struct Profile {
  Range sequences;       // in one step
  Range tokens;          // in one step
  Range context_length;  // tokens of one sequence, prompt and answer together
};

struct Weight {
  std::string name;
  Shape shape;  // [n, k] packed; [n] dense f32
  QuantFormat format;
  std::string packing;  // kernels::packing_name, or "dense"
  uint64_t offset = 0;  // from the start of the weights section, 64-byte aligned
  uint64_t size_bytes = 0;
  // Not in the file: drawn from Plan::synthetic_seed when the plan is loaded. Its offset counts on
  // from the end of the weights that are.
  bool synthetic = false;
};

// What the model's makers propose; a request may say otherwise.
struct GenerationDefaults {
  std::vector<int32_t> stop_ids;
  double temperature = 0.0;
  double top_p = 1.0;
  int64_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

struct Plan {
  // Manifest: JSON for people and tools. Holds no time, host or path.
  std::string family;
  std::string model_name;
  std::string source_hash;    // xxh3 of the source's header and of every tensor, hex
  std::string weight_format;  // as asked: "keep", "bf16", …
  int64_t vocabulary_size = 0;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_parameters = 0;
  std::string device_kind = "cpu";

  Program program;
  KvLayout kv_layout;
  Profile profile;
  text::TextModel text;
  GenerationDefaults generation;
  std::string import_report;    // JSON: per tensor what happened, per pass what it did
  std::string graph_text;       // ir::print after the passes
  std::string recipes_text;     // weight recipes, for retune and refit
  std::vector<Weight> weights;  // data lies in the file's last section
  uint64_t synthetic_seed = 0;  // of the weights that are synthetic
};

// Bytes that all weights take in memory, one behind the other.
uint64_t weights_bytes(const Plan& plan);
bool is_synthetic(const Plan& plan);

}  // namespace kvern::plan
