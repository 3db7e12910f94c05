// The attribute list in both of its forms: text ({eps = 1e-05}) and the binary form of plans.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/fields.h"
#include "base/wire.h"

namespace {

void text_form(std::string_view text) {
  std::vector<kvern::NamedField> fields;
  try {
    fields = kvern::parse_fields(text);
  } catch (const kvern::Error&) {
    return;
  }
  const std::string printed = kvern::print_fields(fields);
  if (kvern::print_fields(kvern::parse_fields(printed)) != printed) std::abort();
}

void binary_form(std::span<const std::byte> bytes) {
  try {
    kvern::WireReader reader(bytes, "fuzz");
    const auto fields = reader.fields("fields");
    reader.expect_end();
    kvern::WireWriter writer;
    writer.fields(fields);
  } catch (const kvern::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  text_form({reinterpret_cast<const char*>(data), size});
  binary_form(std::as_bytes(std::span(data, size)));
  return 0;
}
