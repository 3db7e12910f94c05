// The same numbers for the same model, so that plans and reports are the same too.
#pragma once

#include <cstdint>

namespace kvern::compile {

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t end) { return static_cast<int64_t>(next() % static_cast<uint64_t>(end)); }
  // Mean 0, variance 1, nearly normal: the sum of four 16-bit numbers.
  double normal() {
    const uint64_t bits = next();
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xffff) / 65536.0;
    return (sum - 2.0) * 1.7320508;
  }

 private:
  uint64_t state_;
};

}  // namespace kvern::compile
