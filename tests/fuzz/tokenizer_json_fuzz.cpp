// A tokenizer.json from anywhere: refused with an Error, or a tokenizer that encodes any text and
// streams what it decodes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "compile/import/hf/tokenizer_json.h"
#include "kvern/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvern;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const text::Tokenizer tokenizer(import::hf::read_tokenizer_json(json, "fuzz"));
    const auto ids = tokenizer.encode("Hello, WORD 12 \u00e9\u0301 <mask>\n\xff \u2581x");
    text::StreamDetokenizer stream(tokenizer);
    std::string joined;
    for (const int32_t id : ids) joined += stream.push(id);
    if (joined + stream.finish() != tokenizer.decode(ids)) std::abort();
  } catch (const Error& error) {
    if (error.code() == Code::kInternal) std::abort();
  }
  return 0;
}
