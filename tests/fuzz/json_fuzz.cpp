// parse_json on any bytes: an Error or a value that prints and parses again to the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  kvern::Json value;
  try {
    value = kvern::parse_json(text, "fuzz", kvern::Code::kInvalidModel);
  } catch (const kvern::Error&) {
    return 0;
  }
  const std::string printed = kvern::dump_json(value);
  if (kvern::parse_json(printed, "again", kvern::Code::kInvalidModel) != value) std::abort();
  return 0;
}
