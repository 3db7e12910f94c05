// SentencePiece's fixed way of normalising and decoding, as steps.
#pragma once

#include <string>

#include "text/text_model.h"

namespace kvern::text {

struct SentencePieceOptions {
  std::string chars_map;  // compiled; empty: none
  bool add_space_prefix = true;
  bool prefix_at_start_only = false;  // not again behind every special token
  bool remove_extra_spaces = false;
};

// Fills normalizers, splits and decoders, and what the kinds of tokens say of unknown text.
void set_sentencepiece_steps(const SentencePieceOptions& options, TextModel& model);

}  // namespace kvern::text
