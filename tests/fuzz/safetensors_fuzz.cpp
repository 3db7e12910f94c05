// Any bytes as a safetensors file: its tensors, which all lie inside it, or an Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "compile/import/hf/safetensors.h"
#include "kvern/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto file = kvern::import::hf::read_safetensors(bytes, "fuzz.safetensors", 0);
    for (const kvern::ir::WeightSource& tensor : file.tensors) {
      if (tensor.offset > size || tensor.bytes > size - tensor.offset) std::abort();
    }
  } catch (const kvern::Error& error) {
    if (error.code() == kvern::Code::kInternal) std::abort();
  }
  return 0;
}
