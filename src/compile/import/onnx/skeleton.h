// A .onnx file without its bulk: the messages that Kvern reads, with the elements of tensors
// replaced by where they lie in the file. Protobuf would copy every weight; of the skeleton it
// copies kilobytes, and weights stay in the mapping.
#pragma once

#include <span>
#include <string>

namespace kvern::import::onnx {

enum class RootMessage { kModel, kTensor };

// A message of onnx_messages.proto in wire format. Fields that are not read are left out, packed
// elements and raw_data become TensorProto.payload. Throws Error(kInvalidModel) for damage and for
// messages nested deeper than 64, Error(kUnsupported) for structure of more than 256 MiB and for
// far more parts than the file has bytes for.
std::string make_skeleton(std::span<const std::byte> bytes, RootMessage root,
                          const std::string& file);

}  // namespace kvern::import::onnx
