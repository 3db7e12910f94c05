// Split patterns by the names and texts that model files give them.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/text_model.h"

namespace kvern::text {

struct KnownPattern {
  std::string_view pattern;
  Scanner scanner;
};
std::span<const KnownPattern> known_patterns();

// The scanner of a pattern, by equality of every character; nothing for patterns without one.
std::optional<Scanner> scanner_of_pattern(std::string_view pattern);

// What a GGUF file's `tokenizer.ggml.pre` stands for.
struct NamedPreTokenizer {
  std::vector<Step> normalizers;
  std::vector<Step> splits;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file says nothing
};

// "gpt-2", "smollm", "llama-bpe", …. Others throw Error(kUnsupported) by name, because a wrong
// split gives wrong ids in silence.
NamedPreTokenizer pre_tokenizer_from_name(std::string_view name);

}  // namespace kvern::text
