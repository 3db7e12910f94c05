// Tensors whose bytes lie in files beside the .onnx file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "compile/import/onnx/refuse.h"
#include "compile/ir/array.h"

namespace kvern::onnx_proto {
class TensorProto;
}

namespace kvern::import::onnx {

// Where the elements of one tensor are.
struct FileExtent {
  std::shared_ptr<MappedFile> file;
  int32_t index = 0;  // of the file, as ArrayOrigin counts: 0 is the .onnx file
  uint64_t offset = 0;
  uint64_t length = 0;
};

// Opens each file once. A location must stay below the folder of the .onnx file *as it was given*
// (that one may be a link itself): no absolute path, no "..", no link in any part of it, a regular
// file with one name only. The one exception is a link of a hub cache (snapshots/REV/x ->
// blobs/…), which may lead into that cache's blobs.
class ExternalData {
 public:
  // No folder (""): every external tensor is refused.
  ExternalData(std::string folder, Budget& budget, std::vector<std::string>& warnings)
      : folder_(std::move(folder)), budget_(budget), warnings_(warnings) {}

  // `wanted_bytes`: what dims and type of the tensor take. Throws Error(kNotFound | kInvalidModel |
  // kUnsupported) naming tensor and location.
  FileExtent find(const onnx_proto::TensorProto& tensor, uint64_t wanted_bytes);

  // In the order of FileExtent::index, from 1 on.
  const std::vector<std::shared_ptr<MappedFile>>& files() const { return files_; }

 private:
  int32_t open(const std::string& location, const std::string& who);

  std::string folder_;
  Budget& budget_;
  std::vector<std::string>& warnings_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::map<std::string, int32_t> by_location_;
  std::map<std::pair<uint64_t, uint64_t>, int32_t> by_inode_;
};

}  // namespace kvern::import::onnx
