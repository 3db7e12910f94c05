#include "compile/import/hf/tokenizer.h"

#include "kvern/error.h"

namespace kvern::import::hf {

text::TextModel read_tokenizer(const std::string& folder) {
  throw Error(Code::kUnsupported, "tokenizer: folder '" + folder + "' cannot be read yet");
}

}  // namespace kvern::import::hf
