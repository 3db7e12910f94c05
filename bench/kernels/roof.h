// What the machine gives at this moment, measured beside each benchmark: the host may be shared.
#pragma once

#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"

namespace kvern::bench {

// Wall time, or with one thread its CPU time: on a busy machine only the latter says anything.
class Stopwatch {
 public:
  explicit Stopwatch(const ThreadPool& pool)
      : clock_(pool.num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC),
        start_(now()) {}
  double seconds() const { return now() - start_; }

 private:
  double now() const {
    timespec t{};
    clock_gettime(clock_, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
  clockid_t clock_;
  double start_;
};

[[gnu::target("avx512f")]] inline int64_t read_all(const std::byte* from, int64_t size_bytes) {
  __m512i sum[4] = {};
  for (int64_t i = 0; i + 256 <= size_bytes; i += 256) {
    for (int j = 0; j < 4; ++j) {
      sum[j] = _mm512_add_epi64(sum[j], _mm512_loadu_si512(from + i + j * 64));
    }
  }
  for (int j = 1; j < 4; ++j) sum[0] = _mm512_add_epi64(sum[0], sum[j]);
  int64_t lanes[8];
  std::memcpy(lanes, &sum[0], sizeof(lanes));
  return lanes[0] + lanes[7];
}

// GB/s of reading 192 MiB once on all threads, the best of a few passes.
inline double read_roof_gbps(ThreadPool& pool, int passes = 4) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  constexpr int64_t kPieces = 192;
  static const device::Buffer buffer = [] {
    device::Buffer b = device::allocate_host(kPieces * kPieceBytes);
    std::memset(b.data(), 1, b.size_bytes());
    return b;
  }();
  double best = 0;
  std::vector<int64_t> sums(kPieces);
  for (int pass = 0; pass < passes; ++pass) {
    const Stopwatch watch(pool);
    pool.parallel_for(kPieces, [&](int64_t i, int) {
      sums[static_cast<size_t>(i)] = read_all(buffer.data() + i * kPieceBytes, kPieceBytes);
    });
    best = std::max(best, kPieces * kPieceBytes / watch.seconds() / 1e9);
  }
  return best;
}

[[gnu::target("avx512f,avx512bf16")]] inline float dot_in_registers(int64_t rounds) {
  __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
  const auto one = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  for (int64_t i = 0; i < rounds; ++i) {
    a = _mm512_dpbf16_ps(a, one, one);
    b = _mm512_dpbf16_ps(b, one, one);
    c = _mm512_dpbf16_ps(c, one, one);
    d = _mm512_dpbf16_ps(d, one, one);
    e = _mm512_dpbf16_ps(e, one, one);
    f = _mm512_dpbf16_ps(f, one, one);
    g = _mm512_dpbf16_ps(g, one, one);
    h = _mm512_dpbf16_ps(h, one, one);
    // Keeps the eight chains apart and in registers.
    asm volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h));
  }
  const __m512 sum = a + b + c + d + e + f + g + h;
  return _mm512_cvtss_f32(sum);
}

// GFLOP/s of vdpbf16ps alone on all threads, the best of a few passes.
inline double dot_roof_gflops(ThreadPool& pool, int passes = 4) {
  if (!device::cpu_features().avx512_bf16) return 0;
  constexpr int64_t kRounds = 20000;
  const int64_t tasks = pool.num_threads() * 8;
  double best = 0;
  std::vector<float> sums(static_cast<size_t>(tasks));
  for (int pass = 0; pass < passes; ++pass) {
    const Stopwatch watch(pool);
    pool.parallel_for(
        tasks, [&](int64_t i, int) { sums[static_cast<size_t>(i)] = dot_in_registers(kRounds); });
    best = std::max(best, static_cast<double>(tasks) * kRounds * 8 * 64 / watch.seconds() / 1e9);
  }
  return best;
}

}  // namespace kvern::bench
