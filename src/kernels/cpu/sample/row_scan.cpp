#include "kernels/cpu/sample/row_scan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "device/cpu/cpu_device.h"

// Vectors wider than the baseline's never cross a function that is not inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace kvern::kernels::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// By bytes; spelled out because attributes that depend on a template's argument are ignored.
template <int kBytes>
struct Vectors;
template <>
struct Vectors<64> {
  typedef float F __attribute__((vector_size(64)));
  typedef int32_t I __attribute__((vector_size(64)));
  typedef float Half __attribute__((vector_size(32)));
  typedef double D __attribute__((vector_size(64)));
};
template <>
struct Vectors<32> {
  typedef float F __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));
  typedef float Half __attribute__((vector_size(16)));
  typedef double D __attribute__((vector_size(32)));
};
template <>
struct Vectors<16> {
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  typedef float Half __attribute__((vector_size(8)));
  typedef double D __attribute__((vector_size(16)));
};

// 16 ids are 16 / kFloats vectors.
template <int kBytes>
struct Lanes : Vectors<kBytes> {
  using typename Vectors<kBytes>::F;
  using typename Vectors<kBytes>::I;
  using typename Vectors<kBytes>::Half;
  using typename Vectors<kBytes>::D;
  static constexpr int kFloats = kBytes / 4;
  static constexpr int kVectors = static_cast<int>(kLanes) / kFloats;

  [[gnu::always_inline]] static F load(const float* x) {
    F v;
    std::memcpy(&v, x, sizeof(v));
    return v;
  }

  // exp(y), y <= 0, rounded to the unit of weights: y = n ln2 + r, a polynomial of degree 6.
  [[gnu::always_inline]] static F weight(F x, float max, float scale) {
    F y = (x - max) * scale;
    const F lowest = F{} - 30.0f;          // exp(-30) < 2^-43
    y = y > lowest ? y : lowest;           // also for NaN
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: the sum's low bits are the integer
    const F shifted = y * 1.44269504f + kRound;
    const F n = shifted - kRound;
    F r = y - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    F p = r * (1.0f / 720.0f) + (1.0f / 120.0f);
    p = p * r + (1.0f / 24.0f);
    p = p * r + (1.0f / 6.0f);
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const I exponent = (I)shifted - 0x4B400000 + 127;
    const F w = p * (F)(exponent << 23);
    return (w + 0x1p-10f) - 0x1p-10f;  // a sum of at least 2^-10 holds no bit below 2^-33
  }

  [[gnu::always_inline]] static D sum(F w, D to) {
    Half low, high;
    std::memcpy(&low, &w, sizeof(low));
    std::memcpy(&high, reinterpret_cast<const char*>(&w) + sizeof(low), sizeof(high));
    return to + __builtin_convertvector(low, D) + __builtin_convertvector(high, D);
  }

  [[gnu::always_inline]] static double fold(D v) {
    double out = 0;
    for (int i = 0; i < kBytes / 8; ++i) out += v[i];
    return out;
  }
};

// fn(pointer to 16 logits) for all of the row; the last ones are copied and filled up.
template <class Fn>
[[gnu::always_inline]] inline void for_each_16(const float* x, int64_t begin, int64_t end,
                                               const Fn& fn) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) fn(x + i, i);
  if (i == end) return;
  float rest[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) rest[l] = i + l < end ? x[i + l] : kNone;
  fn(rest, i);
}

template <int kBytes>
[[gnu::always_inline]] inline float maxima_of(const float* x, int64_t count, float* maxima) {
  using L = Lanes<kBytes>;
  typename L::F all[L::kVectors];
  for (auto& v : all) v = typename L::F{} + kNone;
  for (int64_t begin = 0; begin < count; begin += kSpanIds) {
    typename L::F most[L::kVectors];
    for (auto& v : most) v = typename L::F{} + kNone;
    for_each_16(
        x, begin, std::min(count, begin + kSpanIds),
        [&](const float* from, int64_t) __attribute__((always_inline)) {
          for (int v = 0; v < L::kVectors; ++v) {
            const auto a = L::load(from + v * L::kFloats);
            most[v] = a > most[v] ? a : most[v];
          }
        });
    std::memcpy(maxima + begin / kSpanIds * kLanes, most, sizeof(most));
    for (int v = 0; v < L::kVectors; ++v) all[v] = most[v] > all[v] ? most[v] : all[v];
  }
  float lanes[kLanes];
  std::memcpy(lanes, all, sizeof(lanes));
  return *std::max_element(lanes, lanes + kLanes);
}

template <int kBytes>
[[gnu::always_inline]] inline void weights_of(const float* x, int64_t count, float max, float scale,
                                              float* weights) {
  using L = Lanes<kBytes>;
  for_each_16(
      x, 0, count, [&](const float* from, int64_t at) __attribute__((always_inline)) {
        float w[kLanes];
        for (int v = 0; v < L::kVectors; ++v) {
          const auto value = L::weight(L::load(from + v * L::kFloats), max, scale);
          std::memcpy(w + v * L::kFloats, &value, sizeof(value));
        }
        std::memcpy(weights + at, w,
                    static_cast<size_t>(std::min(kLanes, count - at)) * sizeof(float));
      });
}

template <int kBytes>
[[gnu::always_inline]] inline double masses_of(const float* x, int64_t count, float max,
                                               float scale, double* masses) {
  using L = Lanes<kBytes>;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kSpanIds) {
    typename L::D sums[L::kVectors] = {};
    for_each_16(
        x, begin, std::min(count, begin + kSpanIds),
        [&](const float* from, int64_t) __attribute__((always_inline)) {
          for (int v = 0; v < L::kVectors; ++v) {
            sums[v] = L::sum(L::weight(L::load(from + v * L::kFloats), max, scale), sums[v]);
          }
        });
    double mass = 0;
    for (const auto& s : sums) mass += L::fold(s);
    masses[begin / kSpanIds] = mass;
    total += mass;
  }
  return total;
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] float maxima_avx512(const float* x,
                                                                          int64_t count,
                                                                          float* out) {
  return maxima_of<64>(x, count, out);
}
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void weights_avx512(const float* x,
                                                                          int64_t count, float max,
                                                                          float scale, float* out) {
  weights_of<64>(x, count, max, scale, out);
}
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] double masses_avx512(const float* x,
                                                                           int64_t count, float max,
                                                                           float scale,
                                                                           double* out) {
  return masses_of<64>(x, count, max, scale, out);
}

[[gnu::target("avx2")]] float maxima_avx2(const float* x, int64_t count, float* out) {
  return maxima_of<32>(x, count, out);
}
[[gnu::target("avx2")]] void weights_avx2(const float* x, int64_t count, float max, float scale,
                                          float* out) {
  weights_of<32>(x, count, max, scale, out);
}
[[gnu::target("avx2")]] double masses_avx2(const float* x, int64_t count, float max, float scale,
                                           double* out) {
  return masses_of<32>(x, count, max, scale, out);
}

float maxima_plain(const float* x, int64_t count, float* out) {
  return maxima_of<16>(x, count, out);
}
void weights_plain(const float* x, int64_t count, float max, float scale, float* out) {
  weights_of<16>(x, count, max, scale, out);
}
double masses_plain(const float* x, int64_t count, float max, float scale, double* out) {
  return masses_of<16>(x, count, max, scale, out);
}

constexpr RowOps kAvx512 = {maxima_avx512, weights_avx512, masses_avx512};
constexpr RowOps kAvx2 = {maxima_avx2, weights_avx2, masses_avx2};
constexpr RowOps kPlain = {maxima_plain, weights_plain, masses_plain};

}  // namespace

const RowOps& row_ops() {
  const device::CpuFeatures& has = device::cpu_features();
  return has.avx512 ? kAvx512 : has.avx2_fma ? kAvx2 : kPlain;
}

const RowOps* row_ops_named(const char* name) {
  const device::CpuFeatures& has = device::cpu_features();
  const std::string_view wanted = name;
  if (wanted == "avx512") return has.avx512 ? &kAvx512 : nullptr;
  if (wanted == "avx2") return has.avx2_fma ? &kAvx2 : nullptr;
  return wanted == "plain" ? &kPlain : nullptr;
}

}  // namespace kvern::kernels::cpu
