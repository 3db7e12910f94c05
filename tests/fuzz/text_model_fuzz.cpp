// The TextModel section of a plan: an Error, or a model that writes to bytes which read to the same
// and from which a tokenizer is made or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/wire.h"
#include "text/text_model.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvern::text::TextModel model;
  try {
    kvern::WireReader reader(std::as_bytes(std::span(data, size)), "fuzz");
    model = kvern::text::read_text_model(reader);
    reader.expect_end();
  } catch (const kvern::Error&) {
    return 0;
  }
  kvern::WireWriter writer;
  kvern::text::write_text_model(writer, model);
  kvern::WireReader again(std::as_bytes(std::span(writer.bytes())), "again");
  if (kvern::text::read_text_model(again) != model) std::abort();
  if (model.empty()) return 0;
  try {
    const kvern::text::Tokenizer tokenizer(model);
    tokenizer.decode(tokenizer.encode("Hello, 12 mills\n"));
  } catch (const kvern::Error&) {
    // A merge whose result is no token shows only when the tokenizer is made.
    return 0;
  }
  return 0;
}
