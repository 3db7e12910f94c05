#include "text/known_patterns.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "kvern/error.h"

namespace kvern::text {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr KnownPattern kPatterns[] = {
    {kGpt2Pattern, Scanner::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Scanner::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Scanner::kLlama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Scanner::kQwen2},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Scanner::kGpt4o},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Scanner::kTekken},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Scanner::kQwen35},
};

Step regex_step(std::string_view pattern) {
  return {.kind = StepKind::kSplitRegex, .text = std::string(pattern)};
}

std::vector<Step> deepseek_v3_splits() {
  return {
      regex_step(R"(\p{N}{1,3})"), regex_step("[一-龥\u3040-ゟ゠-ヿ]+"),
      regex_step(
          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
}

// Files of these names come without their normaliser; NFC is what the models' own tokenizers do.
struct Named {
  std::string_view name;
  Scanner scanner;
  bool nfc = false;
  bool whole_words = false;  // words that are tokens skip the merges; texts begin with BOS
};

constexpr Named kNames[] = {
    {"gpt-2", Scanner::kGpt2},
    {"gpt2", Scanner::kGpt2},
    {"phi-2", Scanner::kGpt2},
    {"olmo", Scanner::kGpt2, true},
    {"mpt", Scanner::kGpt2, true},
    {"smollm", Scanner::kSmolLm},
    {"starcoder", Scanner::kSmolLm},
    {"refact", Scanner::kSmolLm},
    {"command-r", Scanner::kSmolLm, true},
    {"codeshell", Scanner::kSmolLm},
    {"llama-bpe", Scanner::kLlama3, false, true},
    {"llama3", Scanner::kLlama3, false, true},
    {"llama-v3", Scanner::kLlama3, false, true},
    {"dbrx", Scanner::kLlama3},
    {"smaug-bpe", Scanner::kLlama3},
    {"qwen2", Scanner::kQwen2, true},
    {"deepseek-r1-qwen", Scanner::kQwen2, true},
    {"stablelm2", Scanner::kQwen2, true},
    {"qwen35", Scanner::kQwen35, true},
    {"gpt-4o", Scanner::kGpt4o},
    {"llama4", Scanner::kGpt4o},
    {"tekken", Scanner::kTekken, false, true},
};

}  // namespace

std::span<const KnownPattern> known_patterns() {
  return kPatterns;
}

std::optional<Scanner> scanner_of_pattern(std::string_view pattern) {
  for (const KnownPattern& known : kPatterns) {
    if (known.pattern == pattern) return known.scanner;
  }
  return std::nullopt;
}

NamedPreTokenizer pre_tokenizer_from_name(std::string_view name) {
  NamedPreTokenizer out;
  if (name == "deepseek-v3") {
    out.splits = deepseek_v3_splits();
    return out;
  }
  std::string known_names;
  for (const Named& known : kNames) {
    known_names.append(known.name).append(", ");
    if (known.name != name) continue;
    if (known.nfc) out.normalizers.push_back({.kind = StepKind::kNfc});
    out.splits.push_back(scan_step(known.scanner));
    out.ignore_merges = out.add_bos = known.whole_words;
    return out;
  }
  throw Error(Code::kUnsupported,
              fmt::format("tokenizer: pre-tokenizer '{}' is not supported; known: {}deepseek-v3. "
                          "Another one would split words differently and give wrong ids",
                          name, known_names));
}

}  // namespace kvern::text
