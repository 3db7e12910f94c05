// exp and tanh of the vector kernels: close to libm, and the same bits by AVX2 and by AVX-512.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/avx512_math.h"

namespace kvern::kernels {
namespace {

// x: [a multiple of 16]
template <bool kTanh>
[[gnu::target("avx512f,avx512dq")]] std::vector<float> by_avx512(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); i += 16) {
    const __m512 v = _mm512_loadu_ps(&x[i]);
    _mm512_storeu_ps(&y[i], kTanh ? cpu::tanh_f32(v) : cpu::exp_f32(v));
  }
  return y;
}

template <bool kTanh>
[[gnu::target("avx2,fma")]] std::vector<float> by_avx2(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); i += 8) {
    const __m256 v = _mm256_loadu_ps(&x[i]);
    _mm256_storeu_ps(&y[i], kTanh ? cpu::tanh_f32(v) : cpu::exp_f32(v));
  }
  return y;
}

// Both signs of 40,000 sizes from 1e-12 to 200, and what is no ordinary number.
std::vector<float> inputs() {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, std::nanf(""), 1e-40f, -1e-40f, 1e30f, -1e30f};
  for (int i = 0; i < 40000; ++i) {
    const auto size = static_cast<float>(std::exp(-27.6 + i * 32.9 / 40000));
    x.push_back(size);
    x.push_back(-size);
  }
  while (x.size() % 16 != 0) x.push_back(0.5f);
  return x;
}

template <bool kTanh>
void expect_close(const std::vector<float>& x, const std::vector<float>& y, double tolerance) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = kTanh ? std::tanh(double{x[i]}) : std::exp(double{x[i]});
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(y[i])) << x[i];
    } else if (wanted > std::numeric_limits<float>::max()) {
      EXPECT_EQ(y[i], std::numeric_limits<float>::infinity()) << x[i];
    } else {
      // Half a denormal's step where the result is one.
      ASSERT_NEAR(y[i], wanted, tolerance * std::fabs(wanted) + 0.75e-45) << x[i];
    }
  }
}

template <bool kTanh>
void expect_right(double tolerance) {
  if (!device::cpu_features().avx2_fma) GTEST_SKIP() << "needs AVX2 and FMA";
  const std::vector<float> x = inputs();
  const std::vector<float> narrow = by_avx2<kTanh>(x);
  expect_close<kTanh>(x, narrow, tolerance);
  if (!device::cpu_features().avx512) return;
  const std::vector<float> wide = by_avx512<kTanh>(x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::memcmp(&wide[i], &narrow[i], sizeof(float)), 0)
        << x[i] << ": " << wide[i] << " and " << narrow[i];
  }
}

TEST(VectorMath, Exp) {
  expect_right<false>(9e-8);
}

TEST(VectorMath, Tanh) {
  expect_right<true>(2e-7);
}

}  // namespace
}  // namespace kvern::kernels
