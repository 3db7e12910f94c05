// Splits text into the words that merging works on. Hand-written scanners: the patterns are few,
// and a regular expression engine is ten times slower on them.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/text_step.h"

namespace kvern::text {

// End of the word that starts at `at` (at < text.size()); always beyond `at`. Never looks behind
// `at`, so that words follow from one another.
size_t word_end(Scanner scanner, std::string_view text, size_t at);

}  // namespace kvern::text
