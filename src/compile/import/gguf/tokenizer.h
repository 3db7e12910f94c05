// The tokenizer.* metadata of a GGUF file as a TextModel.
#pragma once

#include <string>
#include <vector>

#include "compile/import/gguf/reader.h"
#include "text/text_model.h"

namespace kvern::import::gguf {

// Empty when the file holds no tokenizer. Throws Error(kUnsupported) for kinds and splits that
// `text` does not know, Error(kInvalidModel) for contradictions.
text::TextModel read_tokenizer(const File& file, std::vector<std::string>& warnings);

}  // namespace kvern::import::gguf
