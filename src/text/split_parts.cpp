#include "text/split_parts.h"

#include <algorithm>

#include "text/unicode.h"

namespace kvern::text {
namespace {

template <class Matches>
std::vector<Part> character_parts(std::string_view text, Matches&& matches) {
  PartCollector collector(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.valid && matches(c.value)) collector.add_match(at, at + c.length_bytes);
    at += c.length_bytes;
  }
  return std::move(collector).finish();
}

}  // namespace

void PartCollector::add_match(size_t begin, size_t end) {
  if (at_ < begin) parts_.push_back({at_, begin, false});
  if (begin < end) parts_.push_back({begin, end, true});
  at_ = end;
}

std::vector<Part> PartCollector::finish() && {
  if (at_ < text_bytes_) parts_.push_back({at_, text_bytes_, false});
  return std::move(parts_);
}

std::vector<Part> literal_parts(std::string_view text, std::string_view wanted) {
  PartCollector collector(text.size());
  for (size_t at = 0; !wanted.empty() && (at = text.find(wanted, at)) != std::string_view::npos;
       at += wanted.size()) {
    collector.add_match(at, at + wanted.size());
  }
  return std::move(collector).finish();
}

std::vector<Part> digit_parts(std::string_view text) {
  return character_parts(text, is_number);
}

std::vector<Part> punctuation_parts(std::string_view text) {
  return character_parts(text, is_punctuation);
}

std::vector<Part> space_parts(std::string_view text) {
  return character_parts(text, is_white_space);
}

std::vector<Part> word_parts(std::string_view text) {
  enum class Kind : uint8_t { kSpace, kWord, kOther };
  const auto kind_at = [&](const CodePoint& c) {
    if (!c.valid) return Kind::kOther;
    if (is_white_space(c.value)) return Kind::kSpace;
    return is_word_character(c.value) ? Kind::kWord : Kind::kOther;
  };
  std::vector<Part> parts;
  Kind last = Kind::kSpace;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const Kind kind = kind_at(c);
    const size_t end = at + c.length_bytes;
    if (!parts.empty() && kind == last) {
      parts.back().end = end;
    } else {
      parts.push_back({at, end, kind == Kind::kSpace});
    }
    last = kind;
    at = end;
  }
  return parts;
}

std::vector<Part> joined_parts(std::vector<Part> parts, SplitBehavior behavior, bool invert) {
  for (Part& part : parts) part.match ^= invert;
  std::vector<Part> out;
  bool after_match = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return parts;
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.match; });
      return parts;
    case SplitBehavior::kMergedWithPrevious:
      for (const Part& part : parts) {
        if (part.match && !after_match && !out.empty()) {
          out.back().end = part.end;
        } else {
          out.push_back(part);
        }
        after_match = part.match;
      }
      return out;
    case SplitBehavior::kMergedWithNext:
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (part->match && !after_match && !out.empty()) {
          out.back().begin = part->begin;
        } else {
          out.push_back(*part);
        }
        after_match = part->match;
      }
      std::reverse(out.begin(), out.end());
      return out;
    case SplitBehavior::kContiguous:
      for (const Part& part : parts) {
        if (!out.empty() && out.back().match == part.match) {
          out.back().end = part.end;
        } else {
          out.push_back(part);
        }
      }
      return out;
  }
  return parts;
}

}  // namespace kvern::text
