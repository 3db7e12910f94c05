// A folder's tokenizer joins its model.
#pragma once

#include <string>

#include "compile/import/import.h"

namespace kvern::import::hf {

// Reads the tokenizer of `folder` into model.text and adds its stop ids; a warning where there is
// none. Throws as read_tokenizer(), and Error(kInvalidModel) where its ids are not the model's.
void join_tokenizer(const std::string& folder, ImportedModel& model);

// Leaves out added tokens whose ids the model does not have: Gemma 3's text models keep the token
// of images in their tokenizer, one beyond their vocabulary. True when all ids now are the model's.
bool drop_foreign_tokens(int64_t vocabulary_size, text::TextModel& text);

}  // namespace kvern::import::hf
