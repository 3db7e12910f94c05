// .onnx files in tensor form. Everything in the file and beside it is hostile until checked.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "compile/ir/tensor_graph.h"

namespace kvern::import::onnx {

// True when the bytes begin like a ModelProto.
bool looks_like_onnx(std::span<const std::byte> bytes);

struct OnnxModel {
  ir::TensorModel model;
  // By ArrayOrigin::file: [0] is the .onnx file, then those of external data.
  std::vector<std::shared_ptr<MappedFile>> files;
  std::vector<std::string> warnings;  // an IR version or an opset newer than what is known, …
};

// The .onnx file at `path`; functions are inlined, nodes sorted, Constant nodes are constants.
// Initializers are views of mapped files where they can be (tensor.h). External data must lie in
// the folder of the file (symlinks and hard links are refused; external_data.h). Throws
// Error(kNotFound | kIo | kInvalidModel | kUnsupported) with the node or tensor at fault.
OnnxModel read_onnx(const std::string& path);

// The same of bytes in memory, which are copied, without external data: for fuzzing and tests.
// OnnxModel::files stays empty.
OnnxModel read_onnx_bytes(std::span<const std::byte> bytes, const std::string& name);

// A TensorProto by itself (the .pb files of the standard's node tests); its name too.
std::pair<std::string, ir::Array> read_tensor_bytes(std::span<const std::byte> bytes,
                                                    const std::string& name);

// The .onnx file of a folder or of its subfolder "onnx": model.onnx, decoder_model_merged.onnx, or
// the only one there; empty when there is none. Throws Error(kInvalidModel) naming the candidates
// when several could be meant.
std::string find_onnx(const std::string& folder);

}  // namespace kvern::import::onnx
