#include "kernels/rope.h"

#include <cmath>

#include "tests/kernels/cases.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using testing::Rows;

Rows run(const RopeDesc& desc, const std::string& name, Rows& x, Rows& cos, Rows& sin, int64_t rows,
         int threads) {
  Rows y(rows, x.dim, testing::kUntouched);
  const auto op = testing::prepare("rope", desc, name);
  const int64_t first = x.rows - rows;
  testing::run_op(*op, {x.operand(first, rows), cos.operand(first, rows), sin.operand(first, rows)},
                  {y.operand()}, threads);
  return y;
}

double wanted(const RopeDesc& desc, const Rows& x, const Rows& cos, const Rows& sin, int64_t t,
              int64_t column) {
  const int64_t d = column % desc.head_dim;
  const int64_t half = desc.rotary_dim / 2;
  if (d >= desc.rotary_dim) return x.at(t, column);
  const int64_t i = desc.interleaved ? d / 2 : d % half;
  const bool second = desc.interleaved ? d % 2 == 1 : d >= half;
  const int64_t step = desc.interleaved ? 1 : half;
  const double c = cos.at(t, i);
  const double s = sin.at(t, i);
  if (second) return x.at(t, column) * c + x.at(t, column - step) * s;
  return x.at(t, column) * c - x.at(t, column + step) * s;
}

TEST(Rope, Cases) {
  for (const testing::Case& c : testing::read_cases("rope")) {
    SCOPED_TRACE(c.line());
    RopeDesc desc;
    desc.heads = static_cast<int32_t>(c.integer("heads"));
    desc.head_dim = static_cast<int32_t>(c.integer("head_dim"));
    desc.rotary_dim = static_cast<int32_t>(c.integer("rotary_dim"));
    desc.interleaved = c.integer("interleaved", 0) != 0;
    const auto counts = c.integers("rows");
    const int64_t most = counts.back();
    Rows x = Rows::random(most, int64_t{desc.heads} * desc.head_dim, 1);
    Rows cos = Rows::random(most, desc.rotary_dim / 2, 2, 0);
    Rows sin = Rows::random(most, desc.rotary_dim / 2, 3, 0);
    const Rows plain = run(desc, "cpu.rope.plain", x, cos, sin, most, 1);
    for (int64_t t = 0; t < most; ++t) {
      for (int64_t i = 0; i < x.dim; ++i) {
        ASSERT_NEAR(plain.at(t, i), wanted(desc, x, cos, sin, t, i), 2e-6) << t << ", " << i;
      }
    }
    for (const Candidate& candidate : testing::runnable("rope", desc)) {
      SCOPED_TRACE(candidate.name);
      for (const int64_t rows : counts) {
        const Rows got =
            run(desc, candidate.name, x, cos, sin, rows, static_cast<int>(rows % 3) + 1);
        EXPECT_TRUE(got.gaps_untouched());
        for (int64_t t = 0; t < rows; ++t) {
          for (int64_t i = 0; i < x.dim; ++i) {
            ASSERT_TRUE(testing::same_bits(got.at(t, i), plain.at(most - rows + t, i)));
          }
        }
      }
    }
  }
}

TEST(Rope, OutputMayBeTheInput) {
  RopeDesc desc{.heads = 2, .head_dim = 40, .rotary_dim = 36, .interleaved = false};
  for (const Candidate& candidate : testing::runnable("rope", desc)) {
    Rows x = Rows::random(2, 80, 1);
    Rows cos = Rows::random(2, 18, 2, 0);
    Rows sin = Rows::random(2, 18, 3, 0);
    const Rows apart = run(desc, candidate.name, x, cos, sin, 2, 1);
    const auto op = testing::prepare("rope", desc, candidate.name);
    testing::run_op(*op, {x.operand(), cos.operand(), sin.operand()}, {x.operand()});
    for (int64_t i = 0; i < 80; ++i) EXPECT_EQ(x.at(1, i), apart.at(1, i));
  }
}

TEST(RopeAngles, AreF32ProductsOfPositionAndFrequency) {
  RopeAnglesDesc desc{.half_dim = 32};
  std::vector<int32_t> positions = {0, 1, 2047, 131071};
  Rows frequencies(1, 32, 0.0f, 0);
  for (int64_t i = 0; i < 32; ++i) {
    frequencies.at(0, i) = static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / 32));
  }
  Rows cos(4, 32, testing::kUntouched, 0);
  Rows sin(4, 32, testing::kUntouched, 0);
  const auto op = testing::prepare("rope_angles", desc, "cpu.rope_angles.plain");
  testing::run_op(*op,
                  {{reinterpret_cast<std::byte*>(positions.data()), 4, 4}, frequencies.operand()},
                  {cos.operand(), sin.operand()});
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t i = 0; i < 32; ++i) {
      const float angle = static_cast<float>(positions[t]) * frequencies.at(0, i);
      EXPECT_NEAR(cos.at(t, i), std::cos(double{angle}), 1e-7);
      EXPECT_NEAR(sin.at(t, i), std::sin(double{angle}), 1e-7);
    }
  }
}

TEST(Rope, RefusesDescsOfDamagedPlans) {
  EXPECT_THROW(RopeFamily::validate({1, 8, 10, false}), Error);
  EXPECT_THROW(RopeFamily::validate({1, 8, 3, false}), Error);
  EXPECT_THROW(RopeFamily::validate({0, 8, 8, false}), Error);
  EXPECT_THROW(RopeAnglesFamily::validate({0}), Error);
}

}  // namespace
}  // namespace kvern::kernels
