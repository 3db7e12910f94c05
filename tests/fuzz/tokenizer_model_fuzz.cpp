// A tokenizer.model (SentencePiece's protobuf) from anywhere: refused with an Error, or a tokenizer
// that encodes any text.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "compile/import/hf/tokenizer_model.h"
#include "kvern/error.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvern;
  try {
    const text::Tokenizer tokenizer(
        import::hf::read_tokenizer_model(std::as_bytes(std::span(data, size)), "fuzz", {}));
    tokenizer.decode(tokenizer.encode("Hello, WORD 12 \u00e9\u0301 <mask>\n\xff \u2581x"));
  } catch (const Error& error) {
    if (error.code() == Code::kInternal) std::abort();
  }
  return 0;
}
