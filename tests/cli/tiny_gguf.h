// A Llama of two layers and 0.1 million weights as a GGUF file, kept as parts, so that a test can
// damage any one of them before the bytes are written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvern::cli_test {

// One metadata entry; `value` holds the encoded bytes behind the type.
struct Meta {
  std::string key;
  uint32_t type = 0;
  std::string value;
};

struct Tensor {
  std::string name;
  std::vector<uint64_t> dims;  // innermost first, as GGUF counts
  uint32_t type = 0;           // 0: F32
  uint64_t offset = 0;         // from the start of the data
  std::string data;
};

struct TinyGguf {
  uint32_t magic = 0x46554747;  // "GGUF"
  uint32_t version = 3;
  int64_t tensor_count_added = 0;  // what the header claims beyond the truth
  int64_t meta_count_added = 0;
  std::vector<Meta> metas;
  std::vector<Tensor> tensors;

  Meta& meta(const std::string& key);
  Tensor& tensor(const std::string& name);
  std::string bytes() const;
};

// Deterministic: the same bytes on every call.
TinyGguf make_tiny_gguf();

// Values as GGUF encodes them.
std::string encode_u32(uint32_t value);
std::string encode_u64(uint64_t value);
std::string encode_f32(float value);
std::string encode_string(const std::string& text);

}  // namespace kvern::cli_test
