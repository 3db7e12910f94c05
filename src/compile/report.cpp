#include "compile/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "compile/report_onnx.h"

namespace kvern::compile {
namespace {

// Errors are known only once the weights are written, and the report's length must not change then:
// ten characters whatever the value.
std::string fixed_width(double value) {
  return fmt::format("{:.4e}", std::clamp(value, 0.0, 9e99));
}

}  // namespace

std::string write_report(const import::ImportedModel& model,
                         const std::vector<passes::PassReport>& passes,
                         const std::vector<quantize::WeightNote>& weights, const OnnxFacts& onnx) {
  Json report;
  report["status"] = "built";
  report["model"] = model.name;
  report["family"] = model.family;
  if (onnx.form != nullptr) report["onnx"] = onnx_report(model, onnx);
  report["tensors"] = Json::array();
  for (const import::TensorNote& tensor : model.tensors) {
    Json row{{"name", tensor.name}, {"type", tensor.source_type}, {"shape", tensor.shape}};
    if (!tensor.note.empty()) row["note"] = tensor.note;
    report["tensors"].push_back(std::move(row));
  }
  report["weights"] = Json::array();
  for (const quantize::WeightNote& weight : weights) {
    Json row{
        {"name", weight.name}, {"from", weight.from}, {"to", weight.to}, {"exact", weight.exact}};
    if (!weight.exact) {
      row["max_error"] = fixed_width(weight.max_error);
      row["relative_rms_error"] = fixed_width(weight.rms_error);
    }
    report["weights"].push_back(std::move(row));
  }
  report["passes"] = Json::array();
  for (const passes::PassReport& pass : passes) {
    Json row{{"pass", pass.pass}, {"changes", pass.num_changes}};
    if (!pass.notes.empty()) row["notes"] = pass.notes;
    report["passes"].push_back(std::move(row));
  }
  if (!model.warnings.empty()) report["warnings"] = model.warnings;
  return dump_json(report, 1);
}

}  // namespace kvern::compile
