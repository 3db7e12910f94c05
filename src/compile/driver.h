// The one function that reads as the life of a model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/import/import.h"
#include "compile/passes/pipeline.h"
#include "compile/quantize/materialize.h"
#include "compile/tensor_form.h"
#include "kvern/types.h"
#include "plan/plan.h"
#include "tensor/quant_format.h"

namespace kvern::compile {

struct BuildRequest {
  std::string model_path;
  std::string plan_path;
  std::string report_path;  // where the report is written too; empty: nowhere
  quantize::WeightChoice weights = quantize::WeightChoice::kKeep;
  std::string weights_name = "keep";
  DType kv_storage = DType::kBf16;
  Activations activations = Activations::kDefault;
  int32_t page_tokens = 32;
  int64_t max_context_length = 0;  // 0: what the model was trained for
  int32_t max_sequences = 16;
  int32_t max_tokens_per_step = 512;
  TensorFormOptions tensor_form;  // of ONNX files
  bool prove = true;              // that the plan's graph computes what an ONNX file does
  uint64_t seed = 0;              // of "synthetic:CONFIG.json"
  int64_t vocabulary_size = 0;    // wanted; 0: any
  // See BuildOptions.
  std::function<void(const std::string& plan_path)> accept;
  std::function<void(const std::string& report_json)> refused;
  ProgressFn progress;
};

struct BuildResult {
  uint64_t plan_bytes = 0;
  double seconds = 0;
  std::string report;  // JSON, as in the plan's import report, and with the time that a proof took
  std::vector<std::string> warnings;
};

// files -> graph -> passes -> storage formats -> program -> tactics -> places -> plan file.
// Throws Error for a model or an option that cannot be; an older plan at plan_path then stays, and
// the report says why.
BuildResult build(const BuildRequest& request);

// Identifies what build() would make: the source's content and every option that changes the plan.
// Reads the whole source once.
std::string build_key(const BuildRequest& request);

}  // namespace kvern::compile
