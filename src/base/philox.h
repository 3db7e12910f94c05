// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): random
// numbers as a function of a key and a counter. No state: the n-th number needs none before it.
#pragma once

#include <array>
#include <cstdint>

namespace kvern {

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> c) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

// 64 random bits.
inline uint64_t philox64(uint64_t key, uint64_t counter) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const auto out = philox({low(key), high(key)}, {low(counter), high(counter), 0, 0});
  return uint64_t{out[1]} << 32 | out[0];
}

}  // namespace kvern
