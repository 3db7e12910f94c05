// xxh3: fast sums that find damage. None of this resists an attacker who chooses the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace kvern {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash64(std::string_view text, uint64_t seed = 0);

// 16 lower-case hexadecimal digits.
std::string hex64(uint64_t value);

// The same sum over bytes that come in parts.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  XXH3_state_s* state_;
};

}  // namespace kvern
