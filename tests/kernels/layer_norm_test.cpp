#include "kernels/layer_norm.h"

#include <cmath>

#include "tests/kernels/cases.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using testing::Rows;

// Rows whose mean is far from 0, where a one-pass variance would lose its digits.
Rows shifted(int64_t rows, int64_t dim) {
  Rows x = Rows::random(rows, dim, 1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < dim; ++i) x.at(r, i) += 100.0f;
  }
  return x;
}

Rows run(const LayerNormDesc& desc, const std::string& name, Rows& x, Rows& gamma, Rows& beta,
         int64_t rows, int threads) {
  Rows y(rows, desc.dim, testing::kUntouched);
  const auto op = testing::prepare("layer_norm", desc, name);
  std::vector<Operand> inputs = {x.operand(x.rows - rows, rows), gamma.operand()};
  if (desc.has_bias) inputs.push_back(beta.operand());
  testing::run_op(*op, inputs, {y.operand()}, threads);
  return y;
}

void expect_close(const LayerNormDesc& desc, const Rows& y, const Rows& x, const Rows& gamma,
                  const Rows& beta) {
  const auto count = static_cast<double>(desc.dim);
  for (int64_t r = 0; r < y.rows; ++r) {
    double mean = 0;
    double squares = 0;
    for (int64_t i = 0; i < desc.dim; ++i) mean += x.at(r, i) / count;
    for (int64_t i = 0; i < desc.dim; ++i) squares += (x.at(r, i) - mean) * (x.at(r, i) - mean);
    const double factor = 1.0 / std::sqrt(squares / count + desc.eps);
    for (int64_t i = 0; i < desc.dim; ++i) {
      const double bias = desc.has_bias ? beta.at(0, i) : 0.0f;
      // The mean of values near 100 is known to 1e-5.
      ASSERT_NEAR(y.at(r, i), (x.at(r, i) - mean) * factor * gamma.at(0, i) + bias, 1e-4)
          << r << ", " << i;
    }
  }
}

TEST(LayerNorm, Cases) {
  for (const testing::Case& c : testing::read_cases("layer_norm")) {
    SCOPED_TRACE(c.line());
    LayerNormDesc desc;
    desc.dim = c.integer("dim");
    desc.has_bias = c.integer("bias", 0) != 0;
    const auto counts = c.integers("rows");
    const int64_t most = counts.back();
    Rows x = shifted(most, desc.dim);
    Rows gamma = Rows::random(1, desc.dim, 3);
    Rows beta = Rows::random(1, desc.dim, 4);
    const Rows plain = run(desc, "cpu.layer_norm.plain", x, gamma, beta, most, 1);
    expect_close(desc, plain, x, gamma, beta);
    for (const Candidate& candidate : testing::runnable("layer_norm", desc)) {
      SCOPED_TRACE(candidate.name);
      EXPECT_EQ(candidate.numerics, "f32.lanes16");
      for (const int64_t rows : counts) {
        const Rows got =
            run(desc, candidate.name, x, gamma, beta, rows, static_cast<int>(rows % 3) + 1);
        EXPECT_TRUE(got.gaps_untouched());
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < desc.dim; ++i) {
            ASSERT_TRUE(testing::same_bits(got.at(r, i), plain.at(most - rows + r, i)));
          }
        }
      }
    }
  }
}

TEST(LayerNorm, RefusesDescsOfDamagedPlans) {
  LayerNormDesc desc;
  EXPECT_THROW(LayerNormFamily::validate(desc), Error);
  desc.dim = 8;
  EXPECT_NO_THROW(LayerNormFamily::validate(desc));
  desc.eps = std::nanf("");
  EXPECT_THROW(LayerNormFamily::validate(desc), Error);
}

}  // namespace
}  // namespace kvern::kernels
