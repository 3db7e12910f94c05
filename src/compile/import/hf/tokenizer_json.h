// tokenizer.json, the file of the `tokenizers` library, as a TextModel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "compile/import/hf/tokenizer_tree.h"
#include "text/text_model.h"

namespace kvern::import::hf {

// `file`: as messages name it. Leaves what the file does not say (bos, eos, templates) empty.
// Throws Error(kUnsupported) naming the part that `text` cannot do, Error(kInvalidModel) for
// damage.
text::TextModel read_tokenizer_json(std::string_view bytes, const std::string& file);

// Puts tokens where their ids say. Ids in between become unused tokens, a bounded number of them: a
// file cannot make many from few bytes.
class TokenPlaces {
 public:
  explicit TokenPlaces(text::TextModel& model) : model_(model) {}
  // Throws Error(kInvalidModel) when the id is taken or far outside.
  void put(const TreeView& view, int32_t id, std::string content);

 private:
  static constexpr int32_t kMaxHoles_tokens = 65536;
  text::TextModel& model_;
  int32_t holes_left_ = kMaxHoles_tokens;
};

// Lets the entries of `added_tokens` and `added_tokens_decoder` join a vocabulary.
class AddedTokens {
 public:
  // `model` must outlive this, and nobody else change its tokens meanwhile.
  explicit AddedTokens(text::TextModel& model);

  // A token that is there already keeps its own id; Flags says whose flags
  // count for what was added before. Throws Error(kInvalidModel) when the id belongs to another
  // token.
  enum class Flags : uint8_t { kReplace, kKeep };
  void add(const TreeView& entry, int32_t id, Flags flags);
  // One that only has a name.
  void add_special(const TreeView& view, const std::string& content, int32_t id);
  std::optional<int32_t> find(const std::string& content) const;

 private:
  int32_t place(const TreeView& view, const std::string& content, int32_t id);
  void set(int32_t id, bool special, text::AddedToken flags, Flags mode);

  text::TextModel& model_;
  TokenPlaces places_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, size_t> added_;  // id -> place in model.added_tokens
};

// The parts of the file that are steps (tokenizer_steps.cpp).
void read_normalizer(const TreeView& view, text::TextModel& model);
// True when the last step is ByteLevel.
bool read_pre_tokenizer(const TreeView& view, text::TextModel& model);
void read_post_processor(const TreeView& view, text::TextModel& model);
// True when the decoder is ByteLevel.
bool read_decoder(const TreeView& view, text::TextModel& model);

}  // namespace kvern::import::hf
