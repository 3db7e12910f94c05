// Columns picked, and reductions of a row.
#include <gmock/gmock.h>

#include <cmath>

#include "kernels/row_reduce.h"
#include "kernels/select.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using testing::Rows;

TEST(Select, TakesEveryKindOfRun) {
  const SelectDesc desc{10, {2, 3, 1, 9, 4, -3, 5, 2, 0, 1, 3, 4}};
  const std::vector<int64_t> indices = {2, 3, 4, 9, 6, 3, 0, 5, 5, 1, 5, 9};
  ASSERT_EQ(desc.out_dim(), 12);
  Rows x = Rows::random(70, 10, 1);
  for (const int threads : {1, 3}) {
    Rows y(70, 12, testing::kUntouched);
    testing::run_op(*testing::prepare("select", desc, "cpu.select.plain"), {x.operand()},
                    {y.operand()}, threads);
    EXPECT_TRUE(y.gaps_untouched());
    for (int64_t r = 0; r < 70; ++r) {
      for (size_t i = 0; i < indices.size(); ++i) {
        ASSERT_EQ(y.at(r, static_cast<int64_t>(i)), x.at(r, indices[i]));
      }
    }
  }
}

TEST(Select, RefusesDescsOfDamagedPlans) {
  for (const std::vector<int64_t>& runs :
       std::vector<std::vector<int64_t>>{{},
                                         {0, 1},
                                         {0, 0, 1},
                                         {-1, 1, 1},
                                         {10, 1, 1},
                                         {0, 11, 1},
                                         {0, 2, 10},
                                         {5, 3, -3},
                                         {0, int64_t{1} << 62, 0},
                                         {0, int64_t{1} << 31, 0, 0, 1, 0},
                                         {0, 2, int64_t{-9223372036854775807} - 1}}) {
    EXPECT_THROW(SelectFamily::validate({10, runs}), Error);
  }
  EXPECT_THROW(SelectFamily::validate({0, {0, 1, 1}}), Error);
  EXPECT_NO_THROW(SelectFamily::validate({10, {0, 10, 1}}));
}

double wanted(ReduceKind kind, const Rows& x, int64_t row, int64_t begin, int64_t count) {
  double sum = 0;
  double square = 0;
  double most = -INFINITY;
  double least = INFINITY;
  for (int64_t i = begin; i < begin + count; ++i) {
    const double value = x.at(row, i);
    sum += value;
    square += value * value;
    most = std::max(most, value);
    least = std::min(least, value);
  }
  switch (kind) {
    case ReduceKind::kSum:
      return sum;
    case ReduceKind::kMean:
      return sum / static_cast<double>(count);
    case ReduceKind::kMeanSquare:
      return square / static_cast<double>(count);
    case ReduceKind::kMax:
      return most;
    case ReduceKind::kMin:
      break;
  }
  return least;
}

TEST(RowReduce, EveryKindAgainstDoublePrecision) {
  const std::pair<int64_t, int64_t> kShapes[] = {{576, 1}, {576, 9}, {35, 5}, {3, 3}, {1000, 1}};
  for (const auto& [dim, groups] : kShapes) {
    for (int kind = 0; kind <= 4; ++kind) {
      const RowReduceDesc desc{dim, groups, static_cast<ReduceKind>(kind)};
      Rows x = Rows::random(40, dim, 1);
      Rows y(40, groups, testing::kUntouched);
      testing::run_op(*testing::prepare("row_reduce", desc, "cpu.row_reduce.plain"), {x.operand()},
                      {y.operand()}, 2);
      EXPECT_TRUE(y.gaps_untouched());
      for (int64_t r = 0; r < 40; ++r) {
        for (int64_t g = 0; g < groups; ++g) {
          const double value = wanted(desc.kind, x, r, g * dim / groups, dim / groups);
          ASSERT_NEAR(y.at(r, g), value, 2e-5) << dim << ", " << groups << ", kind " << kind;
        }
      }
    }
  }
}

TEST(RowReduce, RefusesDescsOfDamagedPlans) {
  EXPECT_THROW(RowReduceFamily::validate({0, 1}), Error);
  EXPECT_THROW(RowReduceFamily::validate({8, 0}), Error);
  EXPECT_THROW(RowReduceFamily::validate({8, 3}), Error);
  EXPECT_THROW(RowReduceFamily::validate({8, 1, static_cast<ReduceKind>(5)}), Error);
}

}  // namespace
}  // namespace kvern::kernels
