// Any text as a config.json, a generation_config.json and an index: over the tensors of a tiny
// Llama (so that some configurations become graphs) a model that verifies, or an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compile/import/hf/generation.h"
#include "compile/import/hf/import.h"
#include "kvern/error.h"

namespace {

namespace hf = kvern::import::hf;

// Hidden 8, two heads of 4 sharing one KV head, 16 in the MLP, 6 tokens; one tensor after the
// other.
hf::WeightFiles tiny_weights() {
  hf::WeightFiles out;
  out.names = {"model.safetensors"};
  uint64_t offset = 1000;
  const auto add = [&](const std::string& name, const kvern::Shape& shape) {
    kvern::ir::WeightSource tensor;
    tensor.name = name;
    tensor.shape = shape;
    tensor.offset = offset;
    tensor.bytes = static_cast<uint64_t>(kvern::num_elements(shape)) * 4;
    offset += tensor.bytes;
    out.tensors.push_back(tensor);
  };
  add("model.embed_tokens.weight", {6, 8});
  add("model.norm.weight", {8});
  const std::string at = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
    add(at + norm + ".weight", {8});
  }
  for (const char* square : {"q_proj", "o_proj"}) {
    add(at + "self_attn." + square + ".weight", {8, 8});
  }
  for (const char* half : {"k_proj", "v_proj"}) add(at + "self_attn." + half + ".weight", {4, 8});
  for (const char* wide : {"gate_proj", "up_proj"}) add(at + "mlp." + wide + ".weight", {16, 8});
  add(at + "mlp.down_proj.weight", {8, 16});
  return out;
}

template <class Call>
void guarded(Call call) {
  try {
    call();
  } catch (const kvern::Error& error) {
    if (error.code() == kvern::Code::kInternal) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const hf::WeightFiles weights = tiny_weights();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  guarded([&] { kvern::ir::verify(hf::import_config(text, weights).graph); });
  guarded([&] { hf::read_index(text, "fuzz.index.json"); });
  guarded([&] {
    kvern::import::ImportedModel model;
    model.vocabulary_size = 100;
    hf::read_generation(text, model);
  });
  return 0;
}
