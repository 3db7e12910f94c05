// An .onnx file and what lies beside it as a model in tensor form.
#pragma once

#include <string>

#include "compile/import/import.h"

namespace kvern::import::onnx {

// `path`: an .onnx file, or a folder that has one (find_onnx). Sets ImportedModel::tensor and
// leaves `graph` empty but for its files, and `slots` too: passes/token_form makes those. Sizes
// that neither the graph nor a config.json beside it says stay 0. Throws as load().
ImportedModel import_onnx(const std::string& path, const LoadOptions& options);

}  // namespace kvern::import::onnx
