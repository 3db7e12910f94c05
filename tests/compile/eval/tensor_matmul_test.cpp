// Products against plain sums: every path of the blocked f32 product, batches and strides.
#include <cmath>
#include <random>

#include "compile/eval/tensor/gemm.h"
#include "tests/compile/eval/tensor_op.h"

namespace kvern::eval {
namespace {

using testing::ElementsAre;

std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = between(random);
  return out;
}

// m, n, k around the sizes of panels and blocks; both orders of each operand.
TEST(TensorMatmul, BlockedProductsEqualPlainSums) {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size s : {Size{1, 5, 7}, Size{3, 1030, 300}, Size{4, 33, 257}, Size{13, 65, 1},
                       Size{97, 31, 256}, Size{200, 2100, 20}, Size{5, 1, 513}}) {
    const std::vector<float> a = random_floats(s.m * s.k, 1), b = random_floats(s.k * s.n, 2);
    for (const int order : {0, 1, 2, 3}) {
      const MatrixView view_a{a.data(), order & 1 ? 1 : s.k, order & 1 ? s.m : 1};
      const MatrixView view_b{b.data(), order & 2 ? 1 : s.n, order & 2 ? s.k : 1};
      std::vector<float> c(static_cast<size_t>(s.m * s.n), 99.0f);
      const Product product{view_a, view_b, c.data(), s.m, s.n, s.k};
      multiply(&product, 1);
      double worst = 0;
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < s.k; ++l) {
            sum +=
                static_cast<double>(view_a.data[i * view_a.row_stride + l * view_a.column_stride]) *
                view_b.data[l * view_b.row_stride + j * view_b.column_stride];
          }
          worst = std::max(worst, std::abs(sum - c[static_cast<size_t>(i * s.n + j)]));
        }
      }
      EXPECT_LT(worst, 1e-4) << s.m << "x" << s.n << "x" << s.k << " order " << order;
    }
  }
}

TEST(TensorMatmul, BatchesBroadcast) {
  const Array a = f32({2, 1, 1, 2}, {1, 2, 3, 4});
  const Array b = f32({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  const Array y = run_op({"MatMul"}, {a, b})[0];
  EXPECT_EQ(y.shape(), (Shape{2, 3, 1, 1}));
  EXPECT_THAT(values<float>(y), ElementsAre(1, 2, 3, 3, 4, 7));
}

TEST(TensorMatmul, VectorsLoseTheirDim) {
  EXPECT_EQ(run_op({"MatMul"}, {f32({2}, {1, 2}), f32({2}, {3, 4})})[0].shape(), (Shape{}));
  EXPECT_EQ(run_op({"MatMul"}, {f32({3, 1, 2}, {1, 2, 3, 4, 5, 6}), f32({2}, {1, 1})})[0].shape(),
            (Shape{3, 1}));
  EXPECT_EQ(run_op({"MatMul"}, {f32({2}, {1, 1}), f32({2, 3}, {1, 2, 3, 4, 5, 6})})[0].shape(),
            (Shape{3}));
}

TEST(TensorMatmul, EmptySumsAreZero) {
  EXPECT_THAT(values<float>(run_op({"MatMul"}, {f32({2, 0}, {}), f32({0, 1}, {})})[0]),
              ElementsAre(0, 0));
  EXPECT_EQ(run_op({"MatMul"}, {f32({0, 2}, {}), f32({2, 3}, {1, 2, 3, 4, 5, 6})})[0].shape(),
            (Shape{0, 3}));
}

TEST(TensorMatmul, ShapesThatDoNotMultiplyAreNamed) {
  expect_refused({"MatMul"}, {f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({2, 2}, {1, 2, 3, 4})},
                 Code::kInvalidModel, "[2, 3] and [2, 2] do not multiply");
}

TEST(TensorMatmul, GemmTransposesScalesAndAdds) {
  const Op op{
      "Gemm", 13, {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 2.0}, {"beta", 0.5}}};
  const Array y = run_op(op, {f32({2, 1}, {1, 2}), f32({2, 2}, {1, 2, 3, 4}), f32({2}, {2, 4})})[0];
  EXPECT_THAT(values<float>(y), ElementsAre(11, 24));
}

TEST(TensorMatmul, IntegersWrap) {
  EXPECT_THAT(values<int64_t>(run_op({"MatMul"}, {i64({1, 2}, {3, 4}), i64({2, 1}, {5, -6})})[0]),
              ElementsAre(-9));
}

TEST(TensorMatmul, EinsumSumsOverWhatTheOutputLacks) {
  const Array a = f32({2, 2}, {1, 2, 3, 4});
  const auto einsum = [&](const std::string& equation, const std::vector<Array>& inputs) {
    return values<float>(run_op({"Einsum", 12, {{"equation", equation}}}, inputs)[0]);
  };
  EXPECT_THAT(einsum("ij,jk->ik", {a, a}), ElementsAre(7, 10, 15, 22));
  EXPECT_THAT(einsum("ii", {a}), ElementsAre(5));
  EXPECT_THAT(einsum("...i->...", {a}), ElementsAre(3, 7));
  EXPECT_THAT(einsum("ba", {a}), ElementsAre(1, 3, 2, 4));
  expect_refused({"Einsum", 12, {{"equation", std::string("ij,jk->iq")}}}, {a, a},
                 Code::kInvalidModel, "no input has");
}

}  // namespace
}  // namespace kvern::eval
