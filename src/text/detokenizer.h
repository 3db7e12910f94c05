// Ids to text while they arrive: only whole UTF-8 characters come out, and what came out joined
// equals the whole decode.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace kvern::text {

class StreamDetokenizer {
 public:
  // `tokenizer` must outlive this object.
  explicit StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that became complete with `id`: maybe none, while a character is unfinished. Bytes
  // that can no longer become a character come out as they are.
  std::string push(int32_t id);

  // The bytes still held back; the object is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;  // the start of one unfinished character: at most 3 bytes
};

}  // namespace kvern::text
