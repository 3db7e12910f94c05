// TensorProto as an Array.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "compile/import/onnx/external_data.h"
#include "compile/ir/array.h"

namespace kvern::import::onnx {

// Where the bytes of one .onnx file are.
struct SourceFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps them
};

// Elements of the file itself (raw_data, packed float_data, …) and of external data become views of
// the mapping. Copied are: integers that the file holds as varints, 4-bit elements (one byte each
// then), and what is not aligned to its element size and at most 1 MiB. Larger unaligned stretches
// stay views: x86 reads them, and 2 GB of them must not be copied; builds with sanitizers copy all.
// Every array whose elements are one stretch of a file has its origin, copied or not; that of a
// 4-bit array says where the packed bytes are.
class TensorReader {
 public:
  TensorReader(SourceFile file, ExternalData& external, Budget& budget)
      : file_(std::move(file)), external_(external), budget_(budget) {}

  // `name`: where the tensor has none of its own. Throws Error(kInvalidModel) naming the tensor
  // when dims, type and elements contradict each other, Error(kUnsupported) for types without
  // numbers.
  ir::Array read(const onnx_proto::TensorProto& tensor, const std::string& name);

  Budget& budget() { return budget_; }

 private:
  SourceFile file_;
  ExternalData& external_;
  Budget& budget_;
};

}  // namespace kvern::import::onnx
