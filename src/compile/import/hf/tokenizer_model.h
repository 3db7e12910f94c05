// tokenizer.model, SentencePiece's protobuf file, as a TextModel.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "text/sentencepiece_steps.h"
#include "text/text_model.h"

namespace kvern::import::hf {

// What the files beside it say.
struct SentencePieceOverrides {
  bool prefix_at_start_only = false;  // tokenizer_config.json: "legacy": false
  bool no_space_prefix = false;       // … "add_prefix_space": false
};

// BPE and Unigram models; bos, eos and pad as the file names them. `file`: as messages name it.
// Throws Error(kUnsupported) naming the part that `text` cannot do, Error(kInvalidModel) for
// damage.
text::TextModel read_tokenizer_model(std::span<const std::byte> bytes, const std::string& file,
                                     const SentencePieceOverrides& overrides);

}  // namespace kvern::import::hf
