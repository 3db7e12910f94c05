#include "tests/cli/tiny_gguf.h"

#include <cstring>
#include <stdexcept>

namespace kvern::cli_test {
namespace {

enum GgufType : uint32_t { kU32 = 4, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kI32 = 5 };

constexpr uint32_t kLayers = 2;
constexpr uint32_t kHidden = 64;
constexpr uint32_t kHeads = 4;
constexpr uint32_t kKvHeads = 2;
constexpr uint32_t kFeedForward = 96;
constexpr uint32_t kContext = 4096;
constexpr uint64_t kAlignment = 32;

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string utf8(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 63))};
}

// The 256 bytes in GPT-2's printable form, then two specials and two merged words.
std::vector<std::string> vocabulary() {
  std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  uint32_t shifted = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    tokens.push_back(utf8(printable ? byte : shifted++));
  }
  tokens.insert(tokens.end(), {"he", "ll"});
  return tokens;
}

std::string string_array(const std::vector<std::string>& items) {
  std::string bytes = raw<uint32_t>(kString) + raw<uint64_t>(items.size());
  for (const std::string& item : items) bytes += encode_string(item);
  return bytes;
}

std::string token_types(size_t num_tokens) {
  std::string bytes = raw<uint32_t>(kI32) + raw<uint64_t>(num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) bytes += raw<int32_t>(i < 3 ? 3 : 1);  // control, normal
  return bytes;
}

constexpr const char* kChatTemplate =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

void add_metadata(TinyGguf& gguf) {
  const auto vocab = vocabulary();
  const auto text = [&](const char* key, const std::string& value) {
    gguf.metas.push_back({key, kString, encode_string(value)});
  };
  const auto number = [&](const char* key, uint32_t value) {
    gguf.metas.push_back({key, kU32, raw(value)});
  };
  const auto real = [&](const char* key, float value) {
    gguf.metas.push_back({key, kF32, raw(value)});
  };
  text("general.architecture", "llama");
  text("general.name", "tiny");
  number("general.alignment", kAlignment);
  number("llama.block_count", kLayers);
  number("llama.context_length", kContext);
  number("llama.embedding_length", kHidden);
  number("llama.feed_forward_length", kFeedForward);
  number("llama.attention.head_count", kHeads);
  number("llama.attention.head_count_kv", kKvHeads);
  number("llama.rope.dimension_count", kHidden / kHeads);
  number("llama.vocab_size", static_cast<uint32_t>(vocab.size()));
  real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  real("llama.rope.freq_base", 10000.0f);
  text("tokenizer.ggml.model", "gpt2");
  text("tokenizer.ggml.pre", "smollm");
  gguf.metas.push_back({"tokenizer.ggml.tokens", kArray, string_array(vocab)});
  gguf.metas.push_back({"tokenizer.ggml.token_type", kArray, token_types(vocab.size())});
  gguf.metas.push_back({"tokenizer.ggml.merges", kArray, string_array({"h e", "l l"})});
  number("tokenizer.ggml.bos_token_id", 1);
  number("tokenizer.ggml.eos_token_id", 2);
  gguf.metas.push_back({"tokenizer.ggml.add_bos_token", kBool, raw<uint8_t>(0)});
  text("tokenizer.chat_template", kChatTemplate);
}

class Weights {
 public:
  explicit Weights(TinyGguf& gguf) : gguf_(gguf) {}

  void matrix(const std::string& name, uint64_t in, uint64_t out) {
    Tensor tensor{name, {in, out}, 0, 0, ""};
    for (uint64_t i = 0; i < in * out; ++i) tensor.data += raw(next() * 0.2f);
    gguf_.tensors.push_back(std::move(tensor));
  }
  void vector(const std::string& name, uint64_t size) {
    Tensor tensor{name, {size}, 0, 0, ""};
    for (uint64_t i = 0; i < size; ++i) tensor.data += raw(1.0f + next() * 0.1f);
    gguf_.tensors.push_back(std::move(tensor));
  }

 private:
  float next() {  // in [-1, 1)
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<float>(state_ >> 40) / static_cast<float>(1 << 23) - 1.0f;
  }
  TinyGguf& gguf_;
  uint64_t state_ = 7;
};

void add_weights(TinyGguf& gguf) {
  Weights weights(gguf);
  constexpr uint64_t kKv = kHidden / kHeads * kKvHeads;
  weights.matrix("token_embd.weight", kHidden, vocabulary().size());
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::string at = "blk." + std::to_string(layer) + ".";
    weights.vector(at + "attn_norm.weight", kHidden);
    weights.matrix(at + "attn_q.weight", kHidden, kHidden);
    weights.matrix(at + "attn_k.weight", kHidden, kKv);
    weights.matrix(at + "attn_v.weight", kHidden, kKv);
    weights.matrix(at + "attn_output.weight", kHidden, kHidden);
    weights.vector(at + "ffn_norm.weight", kHidden);
    weights.matrix(at + "ffn_gate.weight", kHidden, kFeedForward);
    weights.matrix(at + "ffn_up.weight", kHidden, kFeedForward);
    weights.matrix(at + "ffn_down.weight", kFeedForward, kHidden);
  }
  weights.vector("output_norm.weight", kHidden);
  uint64_t offset = 0;
  for (Tensor& tensor : gguf.tensors) {
    tensor.offset = offset;
    offset += (tensor.data.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

void pad(std::string& bytes) {
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
}

}  // namespace

std::string encode_u32(uint32_t value) {
  return raw(value);
}
std::string encode_u64(uint64_t value) {
  return raw(value);
}
std::string encode_f32(float value) {
  return raw(value);
}
std::string encode_string(const std::string& text) {
  return raw<uint64_t>(text.size()) + text;
}

Meta& TinyGguf::meta(const std::string& key) {
  for (Meta& meta : metas) {
    if (meta.key == key) return meta;
  }
  throw std::out_of_range(key);
}

Tensor& TinyGguf::tensor(const std::string& name) {
  for (Tensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::out_of_range(name);
}

std::string TinyGguf::bytes() const {
  std::string out = raw(magic) + raw(version);
  out += raw<uint64_t>(tensors.size() + static_cast<uint64_t>(tensor_count_added));
  out += raw<uint64_t>(metas.size() + static_cast<uint64_t>(meta_count_added));
  for (const Meta& meta : metas) out += encode_string(meta.key) + raw(meta.type) + meta.value;
  for (const Tensor& tensor : tensors) {
    out += encode_string(tensor.name) + raw<uint32_t>(static_cast<uint32_t>(tensor.dims.size()));
    for (uint64_t dim : tensor.dims) out += raw(dim);
    out += raw(tensor.type) + raw(tensor.offset);
  }
  pad(out);
  for (const Tensor& tensor : tensors) {
    out += tensor.data;
    pad(out);
  }
  return out;
}

TinyGguf make_tiny_gguf() {
  TinyGguf gguf;
  add_metadata(gguf);
  add_weights(gguf);
  return gguf;
}

}  // namespace kvern::cli_test
