#include "compile/import/hf/tokenizer_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "compile/import/hf/config.h"

namespace kvern::import::hf {
namespace {

// One protobuf message, field by field. Every length is checked against the bytes that remain.
class Message {
 public:
  Message(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  // False at the end. Values are in the members below; of fields of other wire types nothing is
  // kept.
  bool next();

  uint32_t field = 0;
  uint32_t wire_type = 0;
  uint64_t number = 0;                // wire types 0, 1 and 5
  std::span<const std::byte> nested;  // wire type 2

  std::string text() const {
    expect(2);
    return {reinterpret_cast<const char*>(nested.data()), nested.size()};
  }
  float real() const {
    expect(5);
    const auto bits = static_cast<uint32_t>(number);
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) fail(file_, "a score is no finite number");
    return value;
  }
  bool flag() const {
    expect(0);
    return number != 0;
  }
  int32_t integer() const {
    expect(0);
    return static_cast<int32_t>(static_cast<int64_t>(number));
  }
  void expect(uint32_t wanted) const {
    if (wire_type != wanted) {
      fail(file_,
           fmt::format("protobuf field {} has wire type {}, not {}", field, wire_type, wanted));
    }
  }

 private:
  uint64_t varint();
  uint64_t fixed(size_t size);
  [[noreturn]] void ends_early() const { fail(file_, "ends in the middle of a protobuf field"); }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  size_t at_ = 0;
};

uint64_t Message::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) ends_early();
    const auto byte = static_cast<uint8_t>(bytes_[at_++]);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail(file_, "a protobuf number of more than ten bytes");
}

uint64_t Message::fixed(size_t size) {
  if (bytes_.size() - at_ < size) ends_early();
  uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + at_, size);
  at_ += size;
  return value;
}

bool Message::next() {
  if (at_ == bytes_.size()) return false;
  const uint64_t tag = varint();
  field = static_cast<uint32_t>(tag >> 3);
  wire_type = static_cast<uint32_t>(tag & 7);
  if (field == 0 || tag >> 3 > (1u << 29)) fail(file_, "is no protobuf file (a field number of 0)");
  switch (wire_type) {
    case 0:
      number = varint();
      return true;
    case 1:
      number = fixed(8);
      return true;
    case 5:
      number = fixed(4);
      return true;
    case 2: {
      const uint64_t size = varint();
      if (size > bytes_.size() - at_) ends_early();
      nested = bytes_.subspan(at_, static_cast<size_t>(size));
      at_ += static_cast<size_t>(size);
      return true;
    }
    default:
      fail(file_, fmt::format("is no protobuf file (wire type {})", wire_type));
  }
}

// Field numbers and defaults are sentencepiece_model.proto's.
struct Trainer {
  int32_t model_type = 1;  // 1 Unigram, 2 BPE, 3 word, 4 char
  bool spaces_as_suffix = false;
  bool byte_fallback = false;
  int32_t unk_id = 0;
  int32_t bos_id = 1;
  int32_t eos_id = 2;
  int32_t pad_id = -1;
};

Trainer read_trainer(Message message) {
  Trainer trainer;
  while (message.next()) {
    switch (message.field) {
      case 3:
        trainer.model_type = message.integer();
        break;
      case 24:
        trainer.spaces_as_suffix = message.flag();
        break;
      case 35:
        trainer.byte_fallback = message.flag();
        break;
      case 40:
        trainer.unk_id = message.integer();
        break;
      case 41:
        trainer.bos_id = message.integer();
        break;
      case 42:
        trainer.eos_id = message.integer();
        break;
      case 43:
        trainer.pad_id = message.integer();
        break;
      default:
        break;  // how it was trained
    }
  }
  return trainer;
}

struct NormalizerSpec {
  std::string chars_map;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

NormalizerSpec read_normalizer_spec(Message message) {
  NormalizerSpec spec;
  while (message.next()) {
    switch (message.field) {
      case 2:
        spec.chars_map = message.text();
        break;
      case 3:
        spec.add_dummy_prefix = message.flag();
        break;
      case 4:
        spec.remove_extra_spaces = message.flag();
        break;
      case 5:
        spec.escape_spaces = message.flag();
        break;
      default:
        break;  // its name and source, which the compiled map stands for
    }
  }
  return spec;
}

void read_piece(Message message, const std::string& file, text::TextModel& model) {
  std::string piece;
  float score = 0;
  int32_t type = 1;
  while (message.next()) {
    if (message.field == 1) piece = message.text();
    if (message.field == 2) score = message.real();
    if (message.field == 3) type = message.integer();
  }
  if (type == static_cast<int32_t>(text::TokenType::kUserDefined)) {
    // SentencePiece seeks them in the normalised text.
    model.added_tokens.push_back({.id = model.vocabulary_size(), .normalized = true});
  }
  if (type < 1 || type > 6) {
    fail(file, fmt::format("piece {} has type {}; 1 to 6 are defined", model.tokens.size(), type));
  }
  model.tokens.push_back(std::move(piece));
  model.scores.push_back(score);
  model.token_types.push_back(static_cast<text::TokenType>(type));
}

std::optional<int32_t> id_of_type(const text::TextModel& model, int32_t id, text::TokenType type) {
  if (id < 0 || id >= model.vocabulary_size() || model.token_types[id] != type) return std::nullopt;
  return id;
}

void set_kind(const Trainer& trainer, const std::string& file, text::TextModel& model) {
  if (trainer.model_type == 1) {
    model.kind = text::TokenizerKind::kUnigram;
  } else if (trainer.model_type == 2) {
    model.kind = text::TokenizerKind::kBpe;
  } else {
    unsupported(file, fmt::format("a SentencePiece model of type {}; Unigram (1) and BPE (2) work",
                                  trainer.model_type));
  }
  if (trainer.spaces_as_suffix) unsupported(file, "treat_whitespace_as_suffix");
}

}  // namespace

text::TextModel read_tokenizer_model(std::span<const std::byte> bytes, const std::string& file,
                                     const SentencePieceOverrides& overrides) {
  text::TextModel model;
  Trainer trainer;
  NormalizerSpec spec;
  Message message(bytes, file);
  while (message.next()) {
    if (message.field == 1) {
      message.expect(2);
      read_piece(Message(message.nested, file), file, model);
    } else if (message.field == 2) {
      message.expect(2);
      trainer = read_trainer(Message(message.nested, file));
    } else if (message.field == 3) {
      message.expect(2);
      spec = read_normalizer_spec(Message(message.nested, file));
    }
  }
  if (model.tokens.empty()) fail(file, "holds no pieces");
  set_kind(trainer, file, model);
  if (!spec.escape_spaces) unsupported(file, "escape_whitespaces = false");
  model.unk_id = id_of_type(model, trainer.unk_id, text::TokenType::kUnknown);
  model.bos_id = id_of_type(model, trainer.bos_id, text::TokenType::kControl);
  model.eos_id = id_of_type(model, trainer.eos_id, text::TokenType::kControl);
  model.pad_id = id_of_type(model, trainer.pad_id, text::TokenType::kControl);
  text::set_sentencepiece_steps(
      {.chars_map = std::move(spec.chars_map),
       .add_space_prefix = spec.add_dummy_prefix && !overrides.no_space_prefix,
       .prefix_at_start_only = overrides.prefix_at_start_only,
       .remove_extra_spaces = spec.remove_extra_spaces},
      model);
  model.byte_fallback = trainer.byte_fallback;
  model.validate();
  model.require_unknown();
  return model;
}

}  // namespace kvern::import::hf
