// One step of a tokenizer's way from text to words or from tokens to text, as inert data. Which
// members a step uses stands beside its kind; the others keep their defaults.
#pragma once

#include <cstdint>
#include <string>

namespace kvern::text {

// Split patterns that have a hand-written scanner (known_patterns.h). Stored as numbers in plans:
// values never change.
enum class Scanner : uint8_t {
  kGpt2 = 0,
  kSmolLm = 1,  // digits one by one, then GPT-2's pattern on what lies between them
  kLlama3 = 2,
  kQwen2 = 3,  // Llama 3's with numbers of one digit
  kGpt4o = 4,
  kTekken = 5,  // GPT-4o's without contractions and with numbers of one digit
  kQwen35 = 6,  // Qwen 2's with combining marks in words
};
inline constexpr int kNumScanners = 7;

// What becomes of the parts of a text that a split's pattern matches.
enum class SplitBehavior : uint8_t {
  kIsolated = 0,
  kRemoved = 1,
  kMergedWithPrevious = 2,
  kMergedWithNext = 3,
  kContiguous = 4,
};

enum class PrependScheme : uint8_t { kNever = 0, kAlways = 1, kFirst = 2 };

// Where kPrepend puts its text: before every piece of text between verbatim tokens and before the
// text of those tokens themselves, as `tokenizers` does it; at the start of the whole text alone;
// before every piece, but not before tokens.
enum class PrependMode : uint8_t { kEverywhere = 0, kStart = 1, kPieces = 2 };

// Stored as numbers in plans: values never change.
enum class StepKind : uint8_t {
  // Normalisers.
  kNfc = 1,
  kNfd = 2,
  kNfkc = 3,
  kNfkd = 4,
  kLowercase = 5,
  kStripAccents = 6,
  kStrip = 7,          // left, right: 1 = strip spaces at that end
  kPrepend = 8,        // text; left: a PrependMode
  kReplace = 9,        // text -> with; also a decoder
  kReplaceRegex = 10,  // text is a pattern
  kCharsMap = 11,      // text: SentencePiece's compiled map; left: a CharsMapMode
  kNmt = 12,           // controls out, odd spaces to spaces
  kSqueezeSpaces = 13,
  // Splits.
  kScan = 32,        // left: a Scanner
  kSplitRegex = 33,  // text is a pattern; behavior, invert
  kSplitText = 34,   // text; behavior, invert
  kDigits = 35,      // left: 1 = one by one
  kPunctuation = 36,
  kWords = 37,         // \w+|[^\w\s]+
  kSplitSpaces = 38,   // at white space, which is dropped
  kMetaspace = 39,     // text: the mark; left: a PrependScheme; right: 1 = split; also a decoder
  kPrependSpace = 40,  // a space in front of what has none
  kBertWords = 41,     // at white space, which is dropped, and at punctuation
  // Decoders.
  kByteFallback = 64,
  kFuse = 65,
  kStripText = 66,  // text: a character; left, right: how many at most
};

struct Step {
  StepKind kind = StepKind::kNfc;
  std::string text{};
  std::string with{};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the parts between the matches count as the matches
  int32_t left = 0;
  int32_t right = 0;
  friend bool operator==(const Step&, const Step&) = default;
};

inline Step scan_step(Scanner scanner) {
  return {.kind = StepKind::kScan, .left = static_cast<int32_t>(scanner)};
}

}  // namespace kvern::text
