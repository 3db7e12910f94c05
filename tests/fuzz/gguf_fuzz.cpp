// Any bytes may be a GGUF file: importing them must end in a model or an Error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compile/import/gguf/import.h"
#include "kvern/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    kvern::import::gguf::import_bytes(std::as_bytes(std::span(data, size)), "fuzz.gguf", {});
  } catch (const kvern::InternalError&) {
    throw;  // a broken invariant of our own is a finding
  } catch (const kvern::Error&) {
    return 0;
  }
  return 0;
}
