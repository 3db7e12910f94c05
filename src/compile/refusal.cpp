#include "compile/refusal.h"

#include <fmt/format.h>

#include "base/json.h"
#include "compile/report_onnx.h"

namespace kvern::compile {
namespace {

// The machine or we failed, not the model.
bool is_failure(Code code) {
  return code == Code::kIo || code == Code::kOutOfMemory || code == Code::kDevice ||
         code == Code::kInternal;
}

Json onnx_so_far(const KnownSoFar& known) {
  const ir::TensorModel& model = *known.model->tensor;
  Json out = file_facts(model);
  out["graph_inputs"] = ports_json(model.graph, model.graph.inputs);
  out["graph_outputs"] = ports_json(model.graph, model.graph.outputs);
  out["layers"] = Json::array();
  for (size_t i = 0; i < known.layers.size(); ++i) {
    out["layers"].push_back(layer_facts(i, known.layers[i]));
  }
  return out;
}

}  // namespace

std::string refusal_report(const std::string& model_path, const KnownSoFar& known,
                           const Error& error) {
  Json report{{"status", is_failure(error.code()) ? "failed" : "refused"},
              {"code", code_name(error.code())},
              {"reason", error.what()},
              {"path", model_path}};
  if (!known.model) return dump_json(report, 1);
  report["model"] = known.model->name;
  report["family"] = known.model->family;
  if (known.model->tensor != nullptr) report["onnx"] = onnx_so_far(known);
  if (!known.model->warnings.empty()) report["warnings"] = known.model->warnings;
  return dump_json(report, 1);
}

}  // namespace kvern::compile
