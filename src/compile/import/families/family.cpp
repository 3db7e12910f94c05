#include "compile/import/families/family.h"

namespace kvern::import {
namespace {

constexpr Family kFamilies[] = {
    {"llama", "llama", llama_from_gguf},
};

}  // namespace

std::span<const Family> all_families() {
  return kFamilies;
}

const Family* family_of_gguf(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (architecture == family.gguf_architecture) return &family;
  }
  return nullptr;
}

}  // namespace kvern::import
