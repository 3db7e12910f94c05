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

  // Of ids that go on where others ended: SentencePiece's space before the first word is kept.
  static StreamDetokenizer continuing(const Tokenizer& tokenizer, bool skip_special = true) {
    StreamDetokenizer stream(tokenizer, skip_special);
    stream.start_ = stream.progress_ = tokenizer.continued();
    return stream;
  }

  // The text that became complete with `id`: maybe none, while a character is unfinished. Bytes
  // that can no longer become a character come out as they are.
  std::string push(int32_t id);

  // The bytes still held back; the object is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  TokenTexts::Progress start_;
  TokenTexts::Progress progress_;
  std::string held_;  // the start of one unfinished character: at most 3 bytes
};

}  // namespace kvern::text
