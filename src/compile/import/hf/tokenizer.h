// The tokenizer of a Hugging Face folder as a TextModel.
#pragma once

#include <string>

#include "text/text_model.h"

namespace kvern::import::hf {

// Reads tokenizer.json, or tokenizer.model where that is missing, then what tokenizer_config.json,
// special_tokens_map.json, added_tokens.json and the chat template's files add to it. Empty when
// `folder` holds none of the first two. stop_ids holds the eos token; generation_config.json is the
// caller's. Throws Error(kUnsupported) naming what `text` cannot do, Error(kInvalidModel) for
// damaged or contradicting files.
text::TextModel read_tokenizer(const std::string& folder);

}  // namespace kvern::import::hf
