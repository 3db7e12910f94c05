// Whether a file may be written where somebody asked for it: not onto what is being read.
#pragma once

#include <span>
#include <string>

namespace kvern::compile {

enum class OutputKind { kPlan, kReport, kArrays };

// Throws Error(kInvalidArgument), before anything is written, where `path` is no place for a file
// or no regular file, is one of `sources` (under any name), or is a file in the model's folder that
// an earlier run did not write. The folder counts where a model is one, or an .onnx file, beside
// which configuration and weights lie. A folder in which no file can be made is none either.
// `plan_path`: of a report, the plan that is written with it.
void check_output(const std::string& path, OutputKind kind, const std::string& model_path,
                  std::span<const std::string> sources, const std::string& plan_path = "");

}  // namespace kvern::compile
