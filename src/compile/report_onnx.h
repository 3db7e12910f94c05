// The part of the report that says what was understood of an ONNX file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compile/report.h"

namespace kvern::compile {

nlohmann::ordered_json onnx_report(const import::ImportedModel& model, const OnnxFacts& facts);

}  // namespace kvern::compile
