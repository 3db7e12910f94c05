// A text as the parts that a split's pattern matches and the parts between them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "text/text_step.h"

namespace kvern::text {

struct Part {
  size_t begin;
  size_t end;
  bool match;
};

// Fills in the parts between matches, which are given in order.
class PartCollector {
 public:
  explicit PartCollector(size_t text_bytes) : text_bytes_(text_bytes) {}
  void add_match(size_t begin, size_t end);
  std::vector<Part> finish() &&;

 private:
  size_t text_bytes_;
  size_t at_ = 0;
  std::vector<Part> parts_;
};

std::vector<Part> literal_parts(std::string_view text, std::string_view wanted);
std::vector<Part> digit_parts(std::string_view text);        // each \p{N} a match
std::vector<Part> punctuation_parts(std::string_view text);  // each punctuation character
std::vector<Part> space_parts(std::string_view text);        // each white space character
std::vector<Part> word_parts(std::string_view text);         // what \w+|[^\w\s]+ does not match

// What is left of the parts, in order and none empty, after `behavior`; `match` has no meaning
// then.
std::vector<Part> joined_parts(std::vector<Part> parts, SplitBehavior behavior, bool invert);

}  // namespace kvern::text
