// Any bytes as a GGUF file: a model or an Error, and what is imported verifies and prints.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "compile/import/gguf/import.h"
#include "kvern/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const kvern::import::ImportedModel model =
        kvern::import::gguf::import_bytes(bytes, "fuzz.gguf", {});
    kvern::ir::verify(model.graph);
  } catch (const kvern::Error& error) {
    if (error.code() == kvern::Code::kInternal) std::abort();
  }
  return 0;
}
