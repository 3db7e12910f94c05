// Any bytes as an .onnx file, and as a tensor by itself: read or refused, and what is read
// verifies.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "compile/import/onnx/model_hash.h"
#include "compile/import/onnx/reader.h"
#include "kvern/error.h"

namespace onnx = kvern::import::onnx;

namespace {

template <class Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const kvern::Error& error) {
    if (error.code() == kvern::Code::kInternal) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  onnx::looks_like_onnx(bytes);
  read_or_refuse([&] {
    const onnx::OnnxModel model = onnx::read_onnx_bytes(bytes, "fuzz.onnx");
    kvern::ir::verify(model.model.graph);
    onnx::hash_model(model.model, {});  // touches every element
  });
  read_or_refuse([&] {
    const auto [name, array] = onnx::read_tensor_bytes(bytes, "fuzz.pb");
    volatile std::byte last{};
    if (!array.bytes().empty()) last = array.bytes().back();
  });
  return 0;
}
