#include "compile/import/families/family.h"

namespace kvern::import {
namespace {

constexpr Family kFamilies[] = {
    // name, GGUF's general.architecture, config.json's model_type
    {"llama", "llama", "llama", llama_from_gguf, llama_from_hf},
    {"mistral", nullptr, "mistral", nullptr, mistral_from_hf},
    {"qwen2", "qwen2", "qwen2", qwen2_from_gguf, qwen2_from_hf},
    {"qwen3", "qwen3", "qwen3", qwen3_from_gguf, qwen3_from_hf},
    {"gemma2", "gemma2", "gemma2", gemma2_from_gguf, gemma2_from_hf},
    {"gemma3", "gemma3", "gemma3_text", gemma3_from_gguf, gemma3_from_hf},
    {"phi3", "phi3", "phi3", phi3_from_gguf, phi3_from_hf},
    {"olmo2", "olmo2", "olmo2", olmo2_from_gguf, olmo2_from_hf},
    {"granite", "granite", "granite", granite_from_gguf, granite_from_hf},
    {"smollm3", "smollm3", "smollm3", smollm3_from_gguf, smollm3_from_hf},
    {"gpt2", "gpt2", "gpt2", gpt2_from_gguf, gpt2_from_hf},
    {"gpt_neox", "gptneox", "gpt_neox", gpt_neox_from_gguf, gpt_neox_from_hf},
};

}  // namespace

std::span<const Family> all_families() {
  return kFamilies;
}

const Family* family_of_gguf(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (family.gguf_architecture != nullptr && architecture == family.gguf_architecture) {
      return &family;
    }
  }
  return nullptr;
}

const Family* family_of_hf(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.hf_model_type != nullptr && model_type == family.hf_model_type) return &family;
  }
  return nullptr;
}

}  // namespace kvern::import
