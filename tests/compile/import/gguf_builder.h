// GGUF bytes for tests: a one-layer Llama whose every entry can be changed, left out or repeated.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "compile/import/gguf/metadata.h"

namespace kvern::import::gguf {

class GgufBuilder {
 public:
  template <class T>
  static std::string raw(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  static std::string text(const std::string& value) { return raw<uint64_t>(value.size()) + value; }

  struct Entry {
    std::string key;
    ValueType type;
    std::string value;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // innermost first
    uint32_t type = 0;
    uint64_t bytes = 0;
  };

  void set(const std::string& key, ValueType type, const std::string& value) {
    for (Entry& entry : entries) {
      if (entry.key == key) {
        entry = {key, type, value};
        return;
      }
    }
    entries.push_back({key, type, value});
  }
  void count(const std::string& key, uint32_t value) { set(key, ValueType::kU32, raw(value)); }
  void real(const std::string& key, float value) { set(key, ValueType::kF32, raw(value)); }
  void string(const std::string& key, const std::string& value) {
    set(key, ValueType::kString, text(value));
  }
  void strings(const std::string& key, const std::vector<std::string>& values) {
    std::string all = raw<uint32_t>(8) + raw<uint64_t>(values.size());
    for (const std::string& value : values) all += text(value);
    set(key, ValueType::kArray, all);
  }
  void f32(const std::string& name, const std::vector<uint64_t>& dims) {
    uint64_t bytes = 4;
    for (const uint64_t dim : dims) bytes *= dim;
    tensors.push_back({name, dims, 0, bytes});
  }
  void erase_tensor(const std::string& name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
  }
  Tensor& tensor(const std::string& name) {
    for (Tensor& each : tensors) {
      if (each.name == name) return each;
    }
    return tensors.front();
  }

  std::string bytes() const {
    std::string out =
        raw(magic) + raw(version) + raw<uint64_t>(tensors.size()) + raw<uint64_t>(entries.size());
    for (const Entry& entry : entries) {
      out += text(entry.key) + raw(static_cast<uint32_t>(entry.type)) + entry.value;
    }
    uint64_t offset = 0;
    for (const Tensor& each : tensors) {
      out += text(each.name) + raw(static_cast<uint32_t>(each.dims.size()));
      for (const uint64_t dim : each.dims) out += raw(dim);
      out += raw(each.type) + raw(offset);
      offset += (each.bytes + alignment - 1) / alignment * alignment;
    }
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    for (uint64_t i = 0; i < offset; i += 4) out += raw(0.25f);
    return out;
  }

  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;
};

// Hidden 8, two heads of 4 sharing one KV head, 16 in the MLP, 6 tokens, tied head.
inline GgufBuilder one_layer_llama() {
  GgufBuilder file;
  file.string("general.architecture", "llama");
  file.count("llama.block_count", 1);
  file.count("llama.context_length", 128);
  file.count("llama.embedding_length", 8);
  file.count("llama.feed_forward_length", 16);
  file.count("llama.attention.head_count", 2);
  file.count("llama.attention.head_count_kv", 1);
  file.real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.string("tokenizer.ggml.model", "gpt2");
  file.string("tokenizer.ggml.pre", "smollm");
  file.strings("tokenizer.ggml.tokens", {"<|end|>", "a", "b", "ab"});
  file.strings("tokenizer.ggml.merges", {"a b"});
  file.set("tokenizer.ggml.token_type", ValueType::kArray,
           GgufBuilder::raw<uint32_t>(5) + GgufBuilder::raw<uint64_t>(4) +
               GgufBuilder::raw<int32_t>(3) + GgufBuilder::raw<int32_t>(1) +
               GgufBuilder::raw<int32_t>(1) + GgufBuilder::raw<int32_t>(1));
  file.count("tokenizer.ggml.eos_token_id", 0);
  file.f32("token_embd.weight", {8, 6});
  file.f32("output_norm.weight", {8});
  file.f32("blk.0.attn_norm.weight", {8});
  file.f32("blk.0.attn_q.weight", {8, 8});
  file.f32("blk.0.attn_k.weight", {8, 4});
  file.f32("blk.0.attn_v.weight", {8, 4});
  file.f32("blk.0.attn_output.weight", {8, 8});
  file.f32("blk.0.ffn_norm.weight", {8});
  file.f32("blk.0.ffn_gate.weight", {8, 16});
  file.f32("blk.0.ffn_up.weight", {8, 16});
  file.f32("blk.0.ffn_down.weight", {16, 8});
  return file;
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace kvern::import::gguf
