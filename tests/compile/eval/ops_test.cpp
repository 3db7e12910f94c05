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

TEST(EvalNorm, HeadsAreNormedAlone) {
  const HostTensor x = random_tensor({3, 8}, 1);
  const HostTensor gamma = random_tensor({4}, 2);
  const HostTensor y = run_op(ir::ops::kRmsNorm, {x, gamma}, ir::Attrs::of(ir::NormAttrs{0, 2}))[0];
  HostTensor heads = x;
  heads.shape = {6, 4};
  EXPECT_EQ(y.shape, x.shape);
  EXPECT_EQ(y.f32,
            run_op(ir::ops::kRmsNorm, {heads, gamma}, ir::Attrs::of(ir::NormAttrs{0}))[0].f32);
}

TEST(EvalNorm, LayerNormCentresAndShifts) {
  const ir::Attrs eps = ir::Attrs::of(ir::NormAttrs{0.5f});
  const float scale = 1 / std::sqrt(4.0f + 0.5f);  // mean 3, variance 4
  const HostTensor x = f32({1, 2}, {1, 5});
  EXPECT_THAT(run_op(ir::ops::kLayerNorm, {x, f32({2}, {1, 10})}, eps)[0].f32,
              Pointwise(FloatNear(1e-6f), {-2 * scale, 20 * scale}));
  EXPECT_THAT(run_op(ir::ops::kLayerNorm, {x, f32({2}, {1, 10}), f32({2}, {7, -1})}, eps)[0].f32,
              Pointwise(FloatNear(1e-6f), {7 - 2 * scale, 20 * scale - 1}));
}

// Values of torch.nn.functional.gelu(x, approximate="tanh") and gelu(x), torch 2.15.
TEST(EvalElementwise, GeluHasTwoForms) {
  const HostTensor x = f32({1, 3}, {1, -2, 0.5f});
  EXPECT_THAT(run_op(ir::ops::kGeluTanh, {x})[0].f32,
              Pointwise(FloatNear(1e-6f), {0.84119199f, -0.04540229f, 0.34571401f}));
  EXPECT_THAT(run_op(ir::ops::kGeluErf, {x})[0].f32,
              Pointwise(FloatNear(1e-6f), {0.84134475f, -0.04550026f, 0.34573123f}));
  const HostTensor up = f32({1, 3}, {2, 3, 4});
  EXPECT_THAT(run_op(ir::ops::kGeluTanhMul, {x, up})[0].f32,
              Pointwise(FloatNear(1e-6f), {1.68238398f, -0.13620687f, 1.38285604f}));
  EXPECT_THAT(run_op(ir::ops::kGeluErfMul, {x, up})[0].f32,
              Pointwise(FloatNear(1e-6f), {1.6826895f, -0.13650078f, 1.38292492f}));
}

// Values of torch.relu, torch.tanh, torch.sigmoid and x * torch.sigmoid(1.702 * x), torch 2.15.
TEST(EvalElementwise, Activations) {
  const HostTensor x = f32({1, 3}, {1, -2, 0.5f});
  EXPECT_THAT(run_op(ir::ops::kRelu, {x})[0].f32, ElementsAre(1, 0, 0.5f));
  EXPECT_THAT(run_op(ir::ops::kTanh, {x})[0].f32,
              Pointwise(FloatNear(1e-6f), {0.76159416f, -0.96402758f, 0.46211716f}));
  EXPECT_THAT(run_op(ir::ops::kSigmoid, {x})[0].f32,
              Pointwise(FloatNear(1e-6f), {0.73105858f, 0.11920292f, 0.62245933f}));
  EXPECT_THAT(run_op(ir::ops::kQuickGelu, {x})[0].f32,
              Pointwise(FloatNear(1e-6f), {0.84579575f, -0.06434137f, 0.35038844f}));
}

TEST(EvalElementwise, ScalesAndCaps) {
  const HostTensor x = f32({1, 2}, {3, -100});
  EXPECT_THAT(run_op(ir::ops::kScale, {x}, ir::Attrs::of(ir::FactorAttrs{0.5f}))[0].f32,
              ElementsAre(1.5f, -50));
  EXPECT_THAT(run_op(ir::ops::kSoftcap, {x}, ir::Attrs::of(ir::FactorAttrs{4.0f}))[0].f32,
              Pointwise(FloatNear(1e-6f), {4 * std::tanh(0.75f), -4.0f}));
}

// One value per half of a row, one vector for both halves, one for all.
TEST(EvalGeneric, MapStretchesRowsAndRepeatsVectors) {
  const HostTensor x = f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const HostTensor each = f32({2, 2}, {10, 20, 30, 40});
  const HostTensor vector = f32({2}, {0.5f, 2});
  const ir::Attrs program = ir::Attrs::of(ir::MapAttrs{"x0 x1 add x2 mul x3 sub"});
  EXPECT_THAT(run_op(ir::ops::kMap, {x, each, vector, f32({1}, {1})}, program)[0].f32,
              ElementsAre(4.5f, 23, 10.5f, 47, 16.5f, 71, 22.5f, 95));
}

TEST(EvalGeneric, SelectAndReduce) {
  const HostTensor x = f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(
      run_op(ir::ops::kSelect, {x}, ir::Attrs::of(ir::SelectAttrs{{3, 2, -2, 0, 2, 0}}))[0].f32,
      ElementsAre(4, 2, 1, 1, 8, 6, 5, 5));
  const auto reduced = [&](ir::ReduceKind kind, int64_t groups) {
    return run_op(ir::ops::kRowReduce, {x}, ir::Attrs::of(ir::RowReduceAttrs{kind, groups}))[0].f32;
  };
  EXPECT_THAT(reduced(ir::ReduceKind::kSum, 2), ElementsAre(3, 7, 11, 15));
  EXPECT_THAT(reduced(ir::ReduceKind::kMean, 1), ElementsAre(2.5f, 6.5f));
  EXPECT_THAT(reduced(ir::ReduceKind::kMeanSquare, 2), ElementsAre(2.5f, 12.5f, 30.5f, 56.5f));
  EXPECT_THAT(reduced(ir::ReduceKind::kMax, 2), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(reduced(ir::ReduceKind::kMin, 1), ElementsAre(1, 5));
}

TEST(EvalRope, FrequenciesAreScaledByBand) {
  ir::RopeFrequencyAttrs a{10000.0, 8};
  const auto made = [&](const std::vector<HostTensor>& in) {
    return run_op(ir::ops::kRopeFrequencies, in, ir::Attrs::of(a))[0].f32;
  };
  // 1, 0.1, 0.01, 0.001: wavelengths 6.3, 63, 628, 6283.
  a.scaling = ir::FrequencyScaling::kLinear;
  a.factor = 4;
  EXPECT_THAT(made({}), Pointwise(FloatNear(1e-8f), {0.25f, 0.025f, 0.0025f, 0.00025f}));
  // Above 1024 / 1 divided, below 1024 / 4 kept, between: (1024 / 628.3 - 1) / 3 of the way.
  a.scaling = ir::FrequencyScaling::kLlama3;
  a.original = 1024;
  const float smooth = (1024.0f / 628.3185f - 1) / 3;
  EXPECT_THAT(made({}), Pointwise(FloatNear(1e-8f),
                                  {1.0f, 0.1f, (1 - smooth) * 0.0025f + smooth * 0.01f, 0.00025f}));
  a.scaling = ir::FrequencyScaling::kNone;
  EXPECT_THAT(made({f32({4}, {1, 2, 4, 8})}),
              Pointwise(FloatNear(1e-8f), {1.0f, 0.05f, 0.0025f, 0.000125f}));
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
