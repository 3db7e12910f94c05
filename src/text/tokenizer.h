// Text to ids and back. Immutable after construction, so that any number of threads may share one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_model.h"
#include "text/token_texts.h"

namespace kvern::text {

struct EncodeOptions {
  bool add_special = true;    // bos/eos where the model says so; off for rendered chat templates
  bool parse_special = true;  // "<|im_end|>" in the text becomes its id; off for untrusted text
};

class Tokenizer {
 public:
  // Keeps nothing of `model`. Throws Error(kInvalidModel), or Error(kInvalidArgument) when the
  // model has no tokenizer.
  explicit Tokenizer(const TextModel& model);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Any bytes are accepted; those that are not UTF-8 are encoded byte by byte. What the vocabulary
  // has no token for becomes what the model says of unknown text; where it says nothing it is left
  // out, as the reference implementations do. Throws Error(kInvalidRequest) when a split pattern of
  // the model's own meets its limits on this text; known patterns have none.
  std::vector<int32_t> encode(std::string_view utf8, EncodeOptions options = {}) const;

  // Bytes of all ids joined; not necessarily whole UTF-8 characters. Ids outside the vocabulary
  // give nothing. SentencePiece's space in front of a text is left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  // The bytes that `id` stands for inside a text, special or not; empty outside the vocabulary.
  std::string_view token_bytes(int32_t id) const;
  bool is_special(int32_t id) const;
  int32_t vocabulary_size() const;

  // One id after another, as decode() does it: appends what `id` adds to `out`.
  void decode_next(int32_t id, bool skip_special, TokenTexts::Progress& progress,
                   std::string& out) const;
  // The progress of a text that others began.
  TokenTexts::Progress continued() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace kvern::text
