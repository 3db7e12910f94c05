// Any bytes may be a plan: parsing them must end in a Plan or an Error.
#include <cstddef>
#include <cstdint>

#include "kvern/error.h"
#include "plan/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    kvern::plan::parse_plan(std::as_bytes(std::span(data, size)), "fuzz", /*check_sums=*/false);
  } catch (const kvern::Error&) {
    return 0;
  }
  return 0;
}
