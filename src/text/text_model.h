// TextModel: everything that turns text into ids and back, as inert data. Importers fill it, the
// plan carries it, Tokenizer and ChatTemplate are made from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvern {
class WireReader;
class WireWriter;
}  // namespace kvern

namespace kvern::text {

// How words become ids. Stored as numbers in plans: values never change.
enum class TokenizerKind : uint8_t {
  kNone = 0,         // no tokenizer: the plan serves ids only
  kByteLevelBpe = 1  // GPT-2's: bytes as printable characters, ranked merges
};

// How text is split into words before merging. Stored as numbers in plans: values never change.
enum class PreTokenizer : uint8_t {
  kGpt2 = 0,   // GPT-2's pattern
  kSmolLm = 1  // digits one by one, then GPT-2's pattern on what lies between them
};

// GGUF's numbers (`tokenizer.ggml.token_type`), which are also the stored ones.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never matched in ordinary text, left out when special tokens are skipped
  kUserDefined = 4,  // matched verbatim in any text, kept in the output
  kUnused = 5,
  kByte = 6
};

// Tokens `left` and `right` become the token whose text is theirs joined; position is priority.
struct Merge {
  int32_t left;
  int32_t right;
  friend bool operator==(const Merge&, const Merge&) = default;
};

struct TextModel {
  TokenizerKind kind = TokenizerKind::kNone;
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  // As in the file. Byte-level BPE: normal tokens in GPT-2's byte-to-character form ("Ġthe"),
  // control and user-defined ones as plain text.
  std::vector<std::string> tokens;
  std::vector<TokenType> token_types;  // one per token
  std::vector<Merge> merges;           // first = merged first
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> pad_id;
  std::optional<int32_t> unk_id;
  std::vector<int32_t> stop_ids;  // each ends generation; holds eos_id where there is one
  bool add_bos = false;           // encode() with add_special puts bos_id in front
  bool add_eos = false;           // … and eos_id behind
  std::string chat_template;      // Jinja source; empty = none

  bool empty() const { return kind == TokenizerKind::kNone; }
  int32_t vocabulary_size() const { return static_cast<int32_t>(tokens.size()); }
  // Throws Error(kInvalidModel) naming the first contradiction.
  void validate() const;

  friend bool operator==(const TextModel&, const TextModel&) = default;
};

// `tokenizer.ggml.model`: "gpt2". Others throw Error(kUnsupported) by name.
TokenizerKind tokenizer_kind_from_name(std::string_view name);

// `tokenizer.ggml.pre`: "gpt-2", "smollm", …. Others throw Error(kUnsupported) by name, because a
// wrong split gives wrong ids in silence.
PreTokenizer pre_tokenizer_from_name(std::string_view name);

// Merges as files write them ("Ġ t"), looked up among `tokens`. Throws Error(kInvalidModel) naming
// the merge whose parts or whose result are no tokens.
std::vector<Merge> parse_merges(std::span<const std::string> tokens,
                                std::span<const std::string> merges);

void write_text_model(WireWriter& out, const TextModel& model);

// Throws what the reader throws for damaged bytes, and validate()'s errors as Error(kInvalidPlan).
TextModel read_text_model(WireReader& in);

}  // namespace kvern::text
