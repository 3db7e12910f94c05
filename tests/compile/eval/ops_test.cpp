// Each op's numbers against values worked out by hand or in double precision.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "compile/eval/eval.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

HostTensor f32(Shape shape, std::vector<float> values) {
  return {std::move(shape), std::move(values), {}};
}
HostTensor i32(std::vector<int32_t> values) {
  return {{static_cast<int64_t>(values.size())}, {}, std::move(values)};
}

std::vector<HostTensor> run_op(const ir::OpSchema& op, const std::vector<HostTensor>& inputs,
                               ir::Attrs attrs = {}) {
  ir::Node node;
  node.op = &op;
  node.attrs = attrs.empty() ? op.default_attrs() : std::move(attrs);
  return run_node(node, inputs);
}

HostTensor random_tensor(Shape shape, unsigned seed) {
  std::mt19937 random(seed);
  HostTensor out{shape, {}, {}};
  for (int64_t i = 0; i < num_elements(shape); ++i) {
    out.f32.push_back(std::uniform_real_distribution<float>(-1, 1)(random));
  }
  return out;
}

TEST(EvalLinear, EveryRowAndColumnIsItsDotProduct) {
  // 7 rows: one block of four and three alone; 37 columns: two panels and a part of one.
  const HostTensor x = random_tensor({7, 19}, 1);
  const HostTensor w = random_tensor({37, 19}, 2);
  const HostTensor bias = random_tensor({37}, 3);
  const HostTensor y = run_op(ir::ops::kLinear, {x, w, bias})[0];
  ASSERT_EQ(y.shape, (Shape{7, 37}));
  for (size_t m = 0; m < 7; ++m) {
    for (size_t n = 0; n < 37; ++n) {
      double sum = bias.f32[n];
      for (size_t k = 0; k < 19; ++k) sum += double{x.f32[m * 19 + k]} * w.f32[n * 19 + k];
      ASSERT_NEAR(y.f32[m * 37 + n], sum, 1e-5) << m << " " << n;
    }
  }
}

TEST(EvalLinear, ARowDoesNotDependOnItsNeighbours) {
  const HostTensor x = random_tensor({6, 40}, 1);
  const HostTensor w = random_tensor({20, 40}, 2);
  const HostTensor all = run_op(ir::ops::kLinear, {x, w})[0];
  for (int64_t m = 0; m < 6; ++m) {
    const HostTensor row = f32({1, 40}, {x.f32.begin() + m * 40, x.f32.begin() + (m + 1) * 40});
    const HostTensor one = run_op(ir::ops::kLinear, {row, w})[0];
    EXPECT_TRUE(std::equal(one.f32.begin(), one.f32.end(), all.f32.begin() + m * 20)) << m;
  }
}

TEST(EvalNorm, DividesByTheRootOfTheMeanSquare) {
  const HostTensor x = f32({1, 2}, {3, 4});
  const HostTensor gamma = f32({2}, {1, 10});
  const ir::Attrs eps = ir::Attrs::of(ir::NormAttrs{0.5f});
  const float scale = 1 / std::sqrt(12.5f + 0.5f);
  EXPECT_THAT(run_op(ir::ops::kRmsNorm, {x, gamma}, eps)[0].f32,
              Pointwise(FloatNear(1e-6f), {3 * scale, 40 * scale}));
  const auto both =
      run_op(ir::ops::kAddRmsNorm, {f32({1, 2}, {1, 1}), f32({1, 2}, {2, 3}), gamma}, eps);
  EXPECT_THAT(both[0].f32, ElementsAre(3, 4));
  EXPECT_EQ(both[1].f32, run_op(ir::ops::kRmsNorm, {x, gamma}, eps)[0].f32);
}

TEST(EvalElementwise, AddsMultipliesAndGates) {
  const HostTensor a = f32({1, 3}, {1, -2, 0});
  const HostTensor b = f32({1, 3}, {3, 5, 7});
  const auto gate = [](float x) { return x / (1 + std::exp(-x)); };
  EXPECT_THAT(run_op(ir::ops::kAdd, {a, b})[0].f32, ElementsAre(4, 3, 7));
  EXPECT_THAT(run_op(ir::ops::kMul, {a, b})[0].f32, ElementsAre(3, -10, 0));
  EXPECT_THAT(run_op(ir::ops::kSilu, {a})[0].f32,
              Pointwise(FloatNear(1e-6f), {gate(1), gate(-2), 0.0f}));
  EXPECT_THAT(run_op(ir::ops::kSiluMul, {a, b})[0].f32,
              Pointwise(FloatNear(1e-6f), {3 * gate(1), 5 * gate(-2), 0.0f}));
}

TEST(EvalRows, AreTakenAndCut) {
  const HostTensor table = f32({3, 2}, {0, 1, 10, 11, 20, 21});
  EXPECT_THAT(run_op(ir::ops::kEmbedding, {i32({2, 0}), table})[0].f32, ElementsAre(20, 21, 0, 1));
  EXPECT_THAT(run_op(ir::ops::kGatherRows, {table, i32({1})})[0].f32, ElementsAre(10, 11));
  const auto parts = run_op(ir::ops::kSplit, {f32({2, 3}, {0, 1, 2, 3, 4, 5})},
                            ir::Attrs::of(ir::SplitAttrs{{1, 2}}));
  EXPECT_THAT(parts[0].f32, ElementsAre(0, 3));
  EXPECT_THAT(parts[1].f32, ElementsAre(1, 2, 4, 5));
}

TEST(EvalRows, IndicesOutsideAreRefused) {
  const HostTensor table = f32({3, 2}, {0, 1, 10, 11, 20, 21});
  for (const int32_t id : {-1, 3}) {
    EXPECT_THROW(run_op(ir::ops::kEmbedding, {i32({id}), table}), Error);
    EXPECT_THROW(run_op(ir::ops::kGatherRows, {table, i32({id})}), Error);
  }
}

TEST(EvalRope, TurnsHalvesOrPairsAndLeavesTheRest) {
  const HostTensor frequencies =
      run_op(ir::ops::kRopeFrequencies, {}, ir::Attrs::of(ir::RopeFrequencyAttrs{100.0, 4}))[0];
  EXPECT_THAT(frequencies.f32, Pointwise(FloatNear(1e-7f), {1.0f, 0.1f}));
  const auto angles = run_op(ir::ops::kRopeAngles, {i32({3}), frequencies});
  EXPECT_THAT(angles[0].f32, Pointwise(FloatNear(1e-6f), {std::cos(3.0f), std::cos(0.3f)}));
  EXPECT_THAT(angles[1].f32, Pointwise(FloatNear(1e-6f), {std::sin(3.0f), std::sin(0.3f)}));

  // One angle of a quarter turn, one of none: (a, b) -> (-b, a).
  const HostTensor cos = f32({1, 2}, {0, 1});
  const HostTensor sin = f32({1, 2}, {1, 0});
  const HostTensor x = f32({1, 10}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});  // two heads of 5
  EXPECT_THAT(
      run_op(ir::ops::kRope, {x, cos, sin}, ir::Attrs::of(ir::RopeAttrs{2, 5, false}))[0].f32,
      ElementsAre(-3, 2, 1, 4, 5, -8, 7, 6, 9, 10));
  EXPECT_THAT(
      run_op(ir::ops::kRope, {x, cos, sin}, ir::Attrs::of(ir::RopeAttrs{2, 5, true}))[0].f32,
      ElementsAre(-2, 1, 3, 4, 5, -7, 6, 8, 9, 10));
}

TEST(EvalNode, OpsWithStateAreNotForFolding) {
  EXPECT_THAT(
      [] {
        run_op(ir::ops::kKvAppend, {f32({1, 1}, {1}), f32({1, 1}, {1})});
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("op 'kv_append' has no evaluation")));
}

}  // namespace
}  // namespace kvern::eval
