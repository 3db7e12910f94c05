// The part of the report that says what was understood of an ONNX file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compile/ir/tensor_graph.h"
#include "compile/report.h"

namespace kvern::compile {

// Versions and producer.
nlohmann::ordered_json file_facts(const ir::TensorModel& model);
// Name, type and shape of inputs or outputs.
nlohmann::ordered_json ports_json(const ir::TensorGraph& graph,
                                  const std::vector<ir::TensorValueId>& ids);
nlohmann::ordered_json layer_facts(size_t index, const passes::TokenLayer& layer);

nlohmann::ordered_json onnx_report(const import::ImportedModel& model, const OnnxFacts& facts);

}  // namespace kvern::compile
