// Hugging Face files for tests: a one-layer Llama whose every field and tensor can be changed.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "compile/import/hf/import.h"
#include "compile/import/hf/safetensors.h"

namespace kvern::import::hf {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline std::string with_length(const std::string& header) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header;
}

class SafetensorsBuilder {
 public:
  void add(const std::string& name, std::vector<int64_t> shape, const std::string& dtype = "F32") {
    int64_t bytes = dtype == "F32" ? 4 : dtype == "U8" ? 1 : 2;
    for (const int64_t dim : shape) bytes *= dim;
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {end_, end_ + bytes}}};
    end_ += bytes;
  }
  std::string bytes() const {
    return with_length(header.dump()) + std::string(static_cast<size_t>(end_), '\0');
  }

  Json header = {{"__metadata__", {{"format", "pt"}}}};

 private:
  int64_t end_ = 0;
};

// Hidden 8, two heads of 4 sharing one KV head, 16 in the MLP, 6 tokens.
inline Json llama_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 8},
          {"intermediate_size", 16},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"vocab_size", 6},
          {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
          {"tie_word_embeddings", true},
          {"eos_token_id", 2}};
}

inline SafetensorsBuilder llama_tensors() {
  SafetensorsBuilder file;
  file.add("model.embed_tokens.weight", {6, 8});
  file.add("model.norm.weight", {8});
  const std::string at = "model.layers.0.";
  file.add(at + "input_layernorm.weight", {8});
  file.add(at + "post_attention_layernorm.weight", {8});
  file.add(at + "self_attn.q_proj.weight", {8, 8});
  file.add(at + "self_attn.k_proj.weight", {4, 8});
  file.add(at + "self_attn.v_proj.weight", {4, 8});
  file.add(at + "self_attn.o_proj.weight", {8, 8});
  file.add(at + "mlp.gate_proj.weight", {16, 8});
  file.add(at + "mlp.up_proj.weight", {16, 8});
  file.add(at + "mlp.down_proj.weight", {8, 16});
  return file;
}

inline WeightFiles weights_of(const SafetensorsBuilder& builder) {
  const std::string bytes = builder.bytes();
  SafetensorsFile file = read_safetensors(bytes_of(bytes), "model.safetensors", 0);
  WeightFiles out;
  out.names = {"model.safetensors"};
  out.tensors = std::move(file.tensors);
  out.foreign = std::move(file.foreign);
  out.foreign_types = std::move(file.foreign_types);
  return out;
}

// "ok", or "<code>: <message>".
inline std::string outcome_of(const std::string& config, const SafetensorsBuilder& tensors) {
  try {
    ir::verify(import_config(config, weights_of(tensors)).graph);
  } catch (const Error& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "ok";
}
inline std::string outcome_of(const Json& config) {
  return outcome_of(config.dump(), llama_tensors());
}

// A folder of the test's own, gone with the object.
class TestFolder {
 public:
  explicit TestFolder(const std::string& name)
      : path(std::filesystem::temp_directory_path() /
             ("kvern_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TestFolder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
  const std::filesystem::path path;
};

}  // namespace kvern::import::hf
