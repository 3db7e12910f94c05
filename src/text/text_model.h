// TextModel: everything that turns text into ids and back, as inert data. Importers fill it, the
// plan carries it, Tokenizer and ChatTemplate are made from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/text_step.h"

namespace kvern {
class WireReader;
class WireWriter;
}  // namespace kvern

namespace kvern::text {

// How words become ids. Stored as numbers in plans: values never change.
enum class TokenizerKind : uint8_t {
  kNone = 0,          // no tokenizer: the plan serves ids only
  kByteLevelBpe = 1,  // GPT-2's: bytes as printable characters, ranked merges
  kBpe = 2,           // on characters; ranked by `merges`, or by `scores` as SentencePiece does
  kUnigram = 3        // the most likely segmentation under `scores` (Kudo, 2018)
};

// GGUF's numbers (`tokenizer.ggml.token_type`), which are also the stored ones.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never matched in untrusted text, left out when special tokens are skipped
  kUserDefined = 4,  // matched verbatim in any text, kept in the output
  kUnused = 5,
  kByte = 6  // "<0x0A>": stands for one byte of a character without a token of its own
};

// Tokens `left` and `right` become the token whose text is theirs joined; position is priority.
struct Merge {
  int32_t left;
  int32_t right;
  friend bool operator==(const Merge&, const Merge&) = default;
};

// How a token that stands verbatim in text is found. Tokens of the types unknown, control and
// user-defined that have no entry are found in the text as it came, with no flag set.
struct AddedToken {
  int32_t id = 0;
  bool left_strip = false;   // takes the spaces before it
  bool right_strip = false;  // takes the spaces behind it
  bool single_word = false;  // only where no letter or digit touches it
  bool normalized = false;   // sought in the normalised text, its own text normalised too
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

struct NamedTemplate {
  std::string name;
  std::string source;
  friend bool operator==(const NamedTemplate&, const NamedTemplate&) = default;
};

struct TextModel {
  TokenizerKind kind = TokenizerKind::kNone;
  // As in the file. Byte-level BPE: normal tokens in GPT-2's byte-to-character form ("Ġthe"),
  // control and user-defined ones as plain text.
  std::vector<std::string> tokens;
  std::vector<TokenType> token_types;  // one per token
  std::vector<Merge> merges;           // first = merged first
  std::vector<double> scores;          // one per token, or none
  std::vector<AddedToken> added_tokens;

  std::vector<Step> normalizers;  // text to text, in this order
  std::vector<Step> splits;       // text to words, each on the words of the one before
  std::vector<Step> decoders;     // tokens to text; byte-level BPE needs none

  bool byte_fallback = false;  // characters without a token become their bytes' tokens …
  bool use_unk = false;        // … or else unk_id; neither: they are left out
  bool fuse_unk = false;       // neighbouring unknown characters give one unk_id
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say

  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> pad_id;
  std::optional<int32_t> unk_id;
  std::vector<int32_t> stop_ids;  // each ends generation; holds eos_id where there is one
  bool add_bos = false;           // encode() with add_special puts bos_id in front
  bool add_eos = false;           // … and eos_id behind
  // What add_special puts there instead, where the model's template names other tokens.
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;

  std::string chat_template;                  // Jinja source; empty = none
  std::vector<NamedTemplate> chat_templates;  // where there are several; "default" first

  bool empty() const { return kind == TokenizerKind::kNone; }
  int32_t vocabulary_size() const { return static_cast<int32_t>(tokens.size()); }
  // Throws Error(kInvalidModel) naming the first contradiction.
  void validate() const;
  // Throws Error(kUnsupported) for a Unigram vocabulary without a token for what it lacks: the
  // library that trained it refuses such texts, we would leave characters out.
  void require_unknown() const;

  friend bool operator==(const TextModel&, const TextModel&) = default;
};

// Merges as files write them ("Ġ t"), looked up among `tokens`. Throws Error(kInvalidModel) naming
// the merge whose parts or whose result are no tokens.
std::vector<Merge> parse_merges(std::span<const std::string> tokens,
                                std::span<const std::string> merges);

// The same for merges whose parts are apart already.
std::vector<Merge> resolve_merges(std::span<const std::string> tokens,
                                  std::span<const std::pair<std::string, std::string>> merges);

// The byte of a token "<0x0A>"; nothing for any other.
std::optional<uint8_t> byte_of_token(std::string_view token);

void write_text_model(WireWriter& out, const TextModel& model);

// Reads what any earlier Kvern wrote. Throws what the reader throws for damaged bytes, and
// validate()'s errors as Error(kInvalidPlan).
TextModel read_text_model(WireReader& in);

}  // namespace kvern::text
