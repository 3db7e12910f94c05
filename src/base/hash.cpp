#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace kvern {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t hash64(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::string hex64(uint64_t value) {
  return fmt::format("{:016x}", value);
}

Hasher::Hasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_);
}

Hasher::~Hasher() {
  XXH3_freeState(state_);
}

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_, bytes.data(), bytes.size());
}

uint64_t Hasher::digest() const {
  return XXH3_64bits_digest(state_);
}

}  // namespace kvern
