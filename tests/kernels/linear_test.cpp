#include "kernels/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string_view>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu/linear/plain.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/coded_rows.h"

namespace kvern::kernels {
namespace {

constexpr int64_t kGap = 3;  // elements after each row of x (NaN) and y (untouched)
constexpr float kUntouched = -12345.0f;

struct Problem {
  LinearDesc desc;
  device::Buffer packed;
  std::vector<float> weights;  // [n, k] dequantised
  std::vector<float> x;        // [rows, k + kGap]
  std::vector<float> bias;
  int64_t rows = 0;
};

LinearDesc desc_of(const testing::Case& c) {
  LinearDesc desc;
  desc.n = c.integer("n");
  desc.k = c.integer("k");
  desc.storage = dtype_from_name(c.text("storage")).value();
  desc.group = static_cast<int32_t>(c.integer("group", 0));
  desc.scale = dtype_from_name(c.text("scale", "f16")).value();
  desc.has_min = c.integer("min", 0) != 0;
  desc.has_bias = c.integer("bias", 0) != 0;
  LinearFamily::validate(desc);
  return desc;
}

Problem make_problem(const LinearDesc& desc, int64_t rows) {
  Problem p{desc, {}, {}, {}, {}, rows};
  const CodedRows coded = testing::random_rows(desc.format(), desc.n, desc.k, 11);
  p.packed =
      device::allocate_host(static_cast<size_t>(packed_bytes(desc.format(), desc.n, desc.k)));
  pack(coded, {p.packed.data(), p.packed.size_bytes()});
  p.weights.resize(static_cast<size_t>(desc.n * desc.k));
  for (int64_t n = 0; n < desc.n; ++n) {
    unpack_row(desc.format(), desc.n, desc.k, p.packed.data(), n, &p.weights[n * desc.k]);
  }
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  p.x.assign(static_cast<size_t>(rows * (desc.k + kGap)), std::numeric_limits<float>::quiet_NaN());
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t k = 0; k < desc.k; ++k) p.x[m * (desc.k + kGap) + k] = normal(random);
  }
  for (int64_t n = 0; n < desc.n && desc.has_bias; ++n) p.bias.push_back(normal(random));
  return p;
}

std::vector<float> run(const Impl<LinearDesc, LinearArgs>& impl, const Problem& p, int64_t rows,
                       int threads) {
  ThreadPool pool(threads);
  device::CpuStream stream(pool);
  std::vector<float> y(static_cast<size_t>(rows * (p.desc.n + kGap)), kUntouched);
  impl.run(p.desc, {p.x.data(), p.packed.data(), p.bias.empty() ? nullptr : p.bias.data(), y.data(),
                    rows, p.desc.k + kGap, p.desc.n + kGap, &stream});
  return y;
}

bool begins_with(const char* text, std::string_view prefix) {
  return std::string_view(text).substr(0, prefix.size()) == prefix;
}

// One row of x as an implementation of this numerics id takes it.
std::vector<float> rounded_row(const char* numerics, const LinearDesc& desc, const float* x) {
  std::vector<float> out(x, x + desc.k);
  if (begins_with(numerics, "bf16")) {
    for (float& value : out) value = bf16_to_f32(f32_to_bf16(value));
  }
  if (begins_with(numerics, "i8")) {
    const int64_t stretch = desc.group == 16 ? 16 : 32;
    for (int64_t begin = 0; begin < desc.k; begin += stretch) {
      const int64_t end = std::min(desc.k, begin + stretch);
      float largest = 0;
      for (int64_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(x[k]));
      const float inverse = 127.0f / largest;
      for (int64_t k = begin; k < end; ++k) {
        out[k] = largest == 0 ? 0.0f : largest / 127.0f * std::nearbyint(x[k] * inverse);
      }
    }
  }
  return out;
}

// Every element within 1e-5 of the norms' product of a double reference, which takes the inputs
// as the implementation rounds them. Gaps of y stay untouched.
void expect_close(const Impl<LinearDesc, LinearArgs>& impl, const Problem& p,
                  const std::vector<float>& y) {
  const int64_t rows = std::min<int64_t>(p.rows, 20);
  for (int64_t m = 0; m < rows; ++m) {
    const auto taken = rounded_row(impl.numerics, p.desc, &p.x[m * (p.desc.k + kGap)]);
    for (int64_t n = 0; n < p.desc.n; ++n) {
      double sum = p.bias.empty() ? 0.0 : p.bias[n];
      double x_norm = 0;
      double w_norm = 0;
      for (int64_t k = 0; k < p.desc.k; ++k) {
        const double x = taken[k];
        const double w = p.weights[n * p.desc.k + k];
        sum += x * w;
        x_norm += x * x;
        w_norm += w * w;
      }
      const double bound = 1e-5 * std::sqrt(x_norm * w_norm) + 1e-6 * std::abs(sum);
      ASSERT_NEAR(y[m * (p.desc.n + kGap) + n], sum, bound) << "m " << m << " n " << n;
    }
    for (int64_t i = 0; i < kGap; ++i) {
      ASSERT_EQ(y[m * (p.desc.n + kGap) + p.desc.n + i], kUntouched) << "gap of row " << m;
    }
  }
}

// The same bits for any rows and threads, and from every implementation of one numerics id.
void check_problem(const Problem& p, const std::vector<int64_t>& counts) {
  std::map<std::string, std::vector<float>> by_numerics;
  for (const auto& impl : LinearFamily::table()) {
    if (!impl.supports(p.desc).supported) continue;
    SCOPED_TRACE(impl.name);
    const std::vector<float> all = run(impl, p, p.rows, 1);
    expect_close(impl, p, all);
    if (::testing::Test::HasFatalFailure()) return;
    const std::vector<float>& first = by_numerics.emplace(impl.numerics, all).first->second;
    ASSERT_EQ(std::memcmp(first.data(), all.data(), all.size() * sizeof(float)), 0)
        << "other bits than the first implementation of " << impl.numerics;
    for (const int64_t rows : counts) {
      for (const int threads : {1, 2, 3}) {
        const std::vector<float> some = run(impl, p, rows, threads);
        ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0)
            << rows << " rows on " << threads << " threads";
      }
    }
  }
}

TEST(LinearCases, EveryImplementationIsRightAndBitEqualForAnyRowsAndThreads) {
  for (const testing::Case& c : testing::read_cases("linear")) {
    SCOPED_TRACE(c.line());
    const std::vector<int64_t> counts = c.integers("rows");
    Problem p = make_problem(desc_of(c), counts.back());
    check_problem(p, counts);
    if (::testing::Test::HasFatalFailure()) return;
    if (!p.desc.format().quantised()) continue;
    p.desc.activations = Activations::kInt8;
    check_problem(p, counts);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Linear, LastImplementationIsPlainAndNeverSaysNo) {
  const auto table = LinearFamily::table();
  ASSERT_FALSE(table.empty());
  EXPECT_STREQ(table.back().numerics, "plain.f32");
  EXPECT_TRUE(table.back().supports(LinearDesc{}).supported);
}

TEST(Linear, RefusesFormatsWithoutKernels) {
  LinearDesc desc;
  desc.n = 16;
  desc.k = 16;
  desc.storage = DType::kF8E4M3;
  EXPECT_THROW(LinearFamily::validate(desc), Error);
  desc.storage = DType::kI8;
  desc.group = 7;
  EXPECT_THROW(LinearFamily::validate(desc), Error);
}

// The plain id must not depend on the instruction set.
TEST(Linear, PlainKernelsOfAllInstructionSetsAreBitEqual) {
  std::vector<cpu::PlainKernels> kernels = {cpu::plain_kernels_baseline()};
  if (device::cpu_features().avx2_fma) kernels.push_back(cpu::plain_kernels_avx2());
  if (device::cpu_features().avx512) kernels.push_back(cpu::plain_kernels_avx512());
  for (const QuantFormat& format :
       {QuantFormat{DType::kF16}, QuantFormat{DType::kBf16},
        QuantFormat{DType::kI8, 32, DType::kF16, true}, QuantFormat{DType::kI4, 16, DType::kF32},
        QuantFormat{DType::kI4, 64, DType::kF16, true}}) {
    SCOPED_TRACE(to_string(format));
    const int64_t k = 199, rows = 17;
    const TileLayout layout = tile_layout(format, k);
    std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(format, 16, k)));
    pack(testing::random_rows(format, 16, k, 2), packed);
    std::vector<float> x(static_cast<size_t>(rows * k));
    std::mt19937 random(9);
    for (float& value : x) value = std::normal_distribution<float>()(random);
    std::vector<std::vector<float>> results;
    for (const cpu::PlainKernels& each : kernels) {
      std::vector<float> w(static_cast<size_t>((k + 8) * kTileRows));
      std::vector<float> sums(static_cast<size_t>(rows * kTileRows), 0.5f);
      each.expand(format, layout, packed.data(), 0, layout.steps, w.data());
      each.multiply(w.data(), k, x.data(), k, rows, sums.data());
      w.insert(w.end(), sums.begin(), sums.end());
      results.push_back(w);
    }
    for (const auto& result : results) EXPECT_TRUE(result == results[0]);
  }
}

// All 65,536 f16 in one tile: subnormals, infinities, both zeros and NaN come out of every
// instruction set as f16_to_f32 says, and sums over them are the same.
TEST(Linear, PlainKernelsKnowEveryF16) {
  const QuantFormat format{DType::kF16};
  const int64_t k = 4096;
  const TileLayout layout = tile_layout(format, k);
  CodedRows coded{format, kTileRows, k, {}, {}, {}};
  coded.codes.resize(size_t{2} << 16);
  for (size_t i = 0; i < size_t{1} << 16; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(&coded.codes[2 * i], &bits, sizeof(bits));
  }
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(format, kTileRows, k)));
  pack(coded, packed);
  const std::vector<float> x(static_cast<size_t>(k), 0.25f);
  std::vector<cpu::PlainKernels> kernels = {cpu::plain_kernels_baseline()};
  if (device::cpu_features().avx2_fma) kernels.push_back(cpu::plain_kernels_avx2());
  if (device::cpu_features().avx512) kernels.push_back(cpu::plain_kernels_avx512());
  std::vector<float> first;
  for (const cpu::PlainKernels& each : kernels) {
    std::vector<float> w(static_cast<size_t>(k * kTileRows));
    each.expand(format, layout, packed.data(), 0, layout.steps, w.data());
    for (int64_t lane = 0; lane < kTileRows; ++lane) {
      for (int64_t i = 0; i < k; ++i) {
        const float wanted = f16_to_f32(static_cast<uint16_t>(lane * k + i));
        const float got = w[static_cast<size_t>(i * kTileRows + lane)];
        if (std::isnan(wanted)) {
          ASSERT_TRUE(std::isnan(got)) << lane * k + i;
        } else {
          ASSERT_EQ(std::memcmp(&got, &wanted, sizeof(got)), 0) << lane * k + i << ": " << got;
        }
      }
    }
    std::vector<float> sums(kTileRows, 0.0f);
    each.multiply(w.data(), k, x.data(), k, 1, sums.data());
    if (first.empty()) first = sums;
    for (size_t lane = 0; lane < sums.size(); ++lane) {
      // Rows 7 and 15 hold infinity and NaN.
      EXPECT_EQ(std::isnan(sums[lane]), lane % 8 == 7);
      if (lane % 8 == 7) continue;
      EXPECT_EQ(sums[lane], first[lane]) << "row " << lane;
    }
  }
}

}  // namespace
}  // namespace kvern::kernels
