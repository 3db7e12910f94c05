#include "kernels/rms_norm.h"

#include <cmath>

#include "tests/kernels/cases.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using testing::Rows;

struct Result {
  Rows sum, y;
};

Result run(const RmsNormDesc& desc, const std::string& name, Rows& x, Rows& residual, Rows& gamma,
           int64_t rows, int threads) {
  const int64_t dim = desc.row_dim();
  Result out{Rows(rows, dim, testing::kUntouched), Rows(rows, dim, testing::kUntouched)};
  const auto op = testing::prepare("rms_norm", desc, name);
  const int64_t first = x.rows - rows;  // the last rows, so that their place in the batch differs
  if (desc.has_residual) {
    testing::run_op(*op, {x.operand(first, rows), residual.operand(first, rows), gamma.operand()},
                    {out.sum.operand(), out.y.operand()}, threads);
  } else {
    testing::run_op(*op, {x.operand(first, rows), gamma.operand()}, {out.y.operand()}, threads);
  }
  return out;
}

// Head `head` of every row.
void expect_close(const RmsNormDesc& desc, const Result& got, const Rows& x, const Rows& residual,
                  const Rows& gamma, int64_t head) {
  const int64_t first = head * desc.dim;
  for (int64_t r = 0; r < got.y.rows; ++r) {
    std::vector<double> s(static_cast<size_t>(desc.dim));
    double squares = 0;
    for (int64_t i = 0; i < desc.dim; ++i) {
      const float value = x.at(r, first + i);
      s[i] = desc.has_residual ? double{value + residual.at(r, i)} : double{value};
      squares += s[i] * s[i];
      if (desc.has_residual) {
        ASSERT_EQ(got.sum.at(r, i), static_cast<float>(s[i]));
      }
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(desc.dim) + desc.eps);
    for (int64_t i = 0; i < desc.dim; ++i) {
      const double wanted = s[i] * factor * gamma.at(0, i);
      ASSERT_NEAR(got.y.at(r, first + i), wanted, 1e-6 * (1 + std::fabs(wanted)))
          << r << ", " << first + i;
    }
  }
}

TEST(RmsNorm, Cases) {
  for (const testing::Case& c : testing::read_cases("rms_norm")) {
    SCOPED_TRACE(c.line());
    RmsNormDesc desc;
    desc.dim = c.integer("dim");
    desc.has_residual = c.integer("residual", 0) != 0;
    desc.heads = c.integer("heads", 1);
    const auto counts = c.integers("rows");
    const int64_t most = counts.back();
    Rows x = Rows::random(most, desc.row_dim(), 1);
    Rows residual = Rows::random(most, desc.row_dim(), 2);
    Rows gamma = Rows::random(1, desc.dim, 3);
    const Result plain = run(desc, "cpu.rms_norm.plain", x, residual, gamma, most, 1);
    for (int64_t h = 0; h < desc.heads; ++h) expect_close(desc, plain, x, residual, gamma, h);
    for (const Candidate& candidate : testing::runnable("rms_norm", desc)) {
      SCOPED_TRACE(candidate.name);
      EXPECT_EQ(candidate.numerics, "f32.lanes16");
      for (const int64_t rows : counts) {
        const Result got =
            run(desc, candidate.name, x, residual, gamma, rows, static_cast<int>(rows % 3) + 1);
        EXPECT_TRUE(got.y.gaps_untouched());
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < desc.row_dim(); ++i) {
            ASSERT_TRUE(testing::same_bits(got.y.at(r, i), plain.y.at(most - rows + r, i)));
          }
        }
      }
    }
  }
}

TEST(RmsNorm, SumMayBeTheResidual) {
  RmsNormDesc desc;
  desc.dim = 40;
  desc.has_residual = true;
  for (const Candidate& candidate : testing::runnable("rms_norm", desc)) {
    Rows x = Rows::random(2, 40, 1);
    Rows residual = Rows::random(2, 40, 2);
    Rows gamma = Rows::random(1, 40, 3);
    const Result apart = run(desc, candidate.name, x, residual, gamma, 2, 1);
    Rows y(2, 40, testing::kUntouched);
    const auto op = testing::prepare("rms_norm", desc, candidate.name);
    testing::run_op(*op, {x.operand(), residual.operand(), gamma.operand()},
                    {residual.operand(), y.operand()});
    for (int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(residual.at(1, i), apart.sum.at(1, i));
      EXPECT_EQ(y.at(1, i), apart.y.at(1, i));
    }
  }
}

TEST(RmsNorm, RefusesDescsOfDamagedPlans) {
  RmsNormDesc desc;
  EXPECT_THROW(RmsNormFamily::validate(desc), Error);
  desc.dim = 8;
  EXPECT_NO_THROW(RmsNormFamily::validate(desc));
  desc.heads = 2;
  EXPECT_NO_THROW(RmsNormFamily::validate(desc));
  desc.has_residual = true;
  EXPECT_THROW(RmsNormFamily::validate(desc), Error);
  desc.has_residual = false;
  desc.dim = int64_t{1} << 62;
  EXPECT_THROW(RmsNormFamily::validate(desc), Error);
  desc.dim = 8;
  desc.eps = std::nanf("");
  EXPECT_THROW(RmsNormFamily::validate(desc), Error);
}

}  // namespace
}  // namespace kvern::kernels
