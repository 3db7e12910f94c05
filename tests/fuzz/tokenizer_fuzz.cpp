// Any bytes are text. With a token for every byte, what is encoded decodes to the same bytes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/text_model.h"
#include "text/tokenizer.h"

namespace {

namespace text = kvern::text;

std::string utf8(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 63))};
}

text::TextModel byte_model() {
  text::TextModel model;
  model.kind = text::TokenizerKind::kByteLevelBpe;
  model.splits = {text::scan_step(text::Scanner::kSmolLm)};
  uint32_t shifted = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    model.tokens.push_back(utf8(printable ? byte : shifted++));
  }
  model.tokens.insert(model.tokens.end(), {"he", "ll", "hell"});
  const std::vector<std::string> merges{"h e", "l l", "he ll"};
  model.merges = text::parse_merges(model.tokens, merges);
  model.token_types.assign(model.tokens.size(), text::TokenType::kNormal);
  model.tokens.push_back("<|end|>");
  model.token_types.push_back(text::TokenType::kControl);
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const text::Tokenizer tokenizer(byte_model());
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool special : {false, true}) {
    const auto ids = tokenizer.encode(bytes, {.add_special = false, .parse_special = special});
    if (tokenizer.decode(ids, /*skip_special=*/false) != bytes) std::abort();
  }
  return 0;
}
