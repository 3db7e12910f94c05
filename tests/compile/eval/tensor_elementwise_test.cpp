// Numbers: broadcasting, integer arithmetic without undefined behaviour, rounding of casts.
#include <cmath>
#include <limits>

#include "compile/eval/tensor/small_float.h"
#include "tensor/float_bits.h"
#include "tests/compile/eval/tensor_op.h"

namespace kvern::eval {
namespace {

using testing::ElementsAre;
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Array cast(const Array& x, ElementType to, int64_t saturate = 1) {
  return run_op({"Cast", 19, {{"to", static_cast<int64_t>(to)}, {"saturate", saturate}}}, {x})[0];
}

TEST(TensorElementwise, EveryFormOfBroadcastingGivesTheSame) {
  const Array column = f32({2, 1}, {10, 20});
  const Array row = f32({3}, {1, 2, 3});
  const Array y = run_op({"Sub"}, {column, row})[0];
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_THAT(values<float>(y), ElementsAre(9, 8, 7, 19, 18, 17));
  EXPECT_THAT(values<float>(run_op({"Sub"}, {row, f32({}, {1})})[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(values<float>(run_op({"Sub"}, {f32({1, 1}, {1}), row})[0]), ElementsAre(0, -1, -2));
  EXPECT_EQ(run_op({"Add"}, {f32({0, 1}, {}), row})[0].shape(), (Shape{0, 3}));
  expect_refused({"Add"}, {row, f32({2}, {1, 2})}, Code::kInvalidModel, "do not broadcast");
  expect_refused({"Add"}, {row, i64({3}, {1, 2, 3})}, Code::kInvalidModel, "equal types");
}

TEST(TensorElementwise, IntegersWrapAndNeverTrap) {
  const Array least = i64({1}, {kLeast}), minus_one = i64({1}, {-1});
  EXPECT_THAT(values<int64_t>(run_op({"Add"}, {least, minus_one})[0]),
              ElementsAre(std::numeric_limits<int64_t>::max()));
  EXPECT_THAT(values<int64_t>(run_op({"Div"}, {least, minus_one})[0]), ElementsAre(kLeast));
  EXPECT_THAT(values<int64_t>(run_op({"Mod"}, {least, minus_one})[0]), ElementsAre(0));
  EXPECT_THAT(values<int64_t>(run_op({"Neg"}, {least})[0]), ElementsAre(kLeast));
  expect_refused({"Div"}, {least, i64({1}, {0})}, Code::kInvalidModel, "divided by zero");
  expect_refused({"Mod"}, {least, i64({1}, {0})}, Code::kInvalidModel, "divided by zero");
}

TEST(TensorElementwise, DivisionTruncatesAndModFollowsTheDivisor) {
  const Array x = i64({2}, {-7, 7}), y = i64({2}, {2, -2});
  EXPECT_THAT(values<int64_t>(run_op({"Div"}, {x, y})[0]), ElementsAre(-3, -3));
  EXPECT_THAT(values<int64_t>(run_op({"Mod"}, {x, y})[0]), ElementsAre(1, -1));
  EXPECT_THAT(values<int64_t>(run_op({"Mod", 13, {{"fmod", int64_t{1}}}}, {x, y})[0]),
              ElementsAre(-1, 1));
}

TEST(TensorElementwise, PowKeepsTheTypeOfItsBase) {
  EXPECT_THAT(values<int64_t>(run_op({"Pow"}, {i64({2}, {3, 2}), f32({}, {2})})[0]),
              ElementsAre(9, 4));
  EXPECT_THAT(values<float>(run_op({"Pow"}, {f32({2}, {3, -2}), i64({}, {3})})[0]),
              ElementsAre(27, -8));
  // The form with one exponent for all gives the shape that broadcasting gives.
  EXPECT_EQ(run_op({"Pow"}, {f32({2}, {3, 2}), f32({1, 1}, {2})})[0].shape(), (Shape{1, 2}));
}

TEST(TensorElementwise, NanWinsInMaxAndStaysInRelu) {
  const Array y = run_op({"Max"}, {f32({2}, {1, kNan}), f32({2}, {kNan, 1})})[0];
  EXPECT_TRUE(std::isnan(y.as<float>()[0]) && std::isnan(y.as<float>()[1]));
  EXPECT_TRUE(std::isnan(run_op({"Relu"}, {f32({1}, {kNan})})[0].as<float>()[0]));
}

TEST(TensorElementwise, RoundTakesTheEvenNeighbour) {
  EXPECT_THAT(values<float>(run_op({"Round"}, {f32({4}, {0.5f, 1.5f, 2.5f, -2.5f})})[0]),
              ElementsAre(0, 2, 2, -2));
}

TEST(TensorElementwise, HalvesAreRoundedToNearestEven) {
  const Array x = f32({3}, {1.0009766f, 2049, 2051});
  EXPECT_THAT(cast(cast(x, ElementType::kFloat16), ElementType::kFloat).to_f32(),
              ElementsAre(1.0009765625f, 2048, 2052));
  EXPECT_THAT(
      cast(cast(f32({2}, {257, 259}), ElementType::kBfloat16), ElementType::kFloat).to_f32(),
      ElementsAre(256, 260));
}

TEST(TensorElementwise, DoublesAreRoundedToHalvesOnce) {
  // Just above the middle of 1 and the next half: through f32 it would become the middle, then 1.
  const double x = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  const Array half =
      cast(Array::of<double>(ElementType::kDouble, {1}, std::span(&x, 1)), ElementType::kFloat16);
  EXPECT_EQ(half.as<uint16_t>()[0], f32_to_f16(1.0009765625f));
}

TEST(TensorElementwise, CastsOfWildFloatsAreDefined) {
  const Array x = f32({4}, {kNan, kInfinity, -1e30f, -1.9f});
  EXPECT_THAT(values<int64_t>(cast(x, ElementType::kInt64)),
              ElementsAre(kLeast, kLeast, kLeast, -1));
  EXPECT_THAT(values<uint8_t>(cast(x, ElementType::kBool)), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(values<uint8_t>(cast(f32({2}, {300, -1}), ElementType::kUint8)),
              ElementsAre(44, 255));
}

TEST(TensorElementwise, SmallFloatsRoundTripAndSaturate) {
  for (const ElementType type : {ElementType::kFloat8E4M3Fn, ElementType::kFloat8E4M3Fnuz,
                                 ElementType::kFloat8E5M2, ElementType::kFloat8E5M2Fnuz}) {
    const SmallFloat& format = *small_float_of(type);
    for (int code = 0; code < 256; ++code) {
      const float value = decode(format, static_cast<uint8_t>(code));
      if (std::isnan(value)) continue;
      EXPECT_EQ(encode(format, value, false), code) << ir::element_type_name(type);
    }
    EXPECT_EQ(decode(format, encode(format, 1e9f, true)), format.largest);
    EXPECT_FALSE(std::isfinite(decode(format, encode(format, 1e9f, false))));
  }
}

TEST(TensorElementwise, SoftmaxFlattensBeforeOpset13) {
  const Array x = f32({2, 2}, {0, 0, 0, 0});
  EXPECT_THAT(values<float>(run_op({"Softmax", 13, {{"axis", int64_t{0}}}}, {x})[0]),
              ElementsAre(0.5f, 0.5f, 0.5f, 0.5f));
  EXPECT_THAT(values<float>(run_op({"Softmax", 11, {{"axis", int64_t{0}}}}, {x})[0]),
              ElementsAre(0.25f, 0.25f, 0.25f, 0.25f));
}

TEST(TensorElementwise, ReducesNoAxesAllAxesAndEmptyOnes) {
  const Array x = f32({2, 2}, {1, 2, 3, 4});
  const Array none = i64({0}, {});
  EXPECT_THAT(values<float>(run_op({"ReduceSum", 13}, {x, none})[0]), ElementsAre(10));
  const Op noop{"ReduceSum", 13, {{"noop_with_empty_axes", int64_t{1}}}};
  EXPECT_THAT(values<float>(run_op(noop, {x, none})[0]), ElementsAre(1, 2, 3, 4));
  const Op first{"ReduceMean", 13, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}}};
  EXPECT_THAT(values<float>(run_op(first, {x})[0]), ElementsAre(2, 3));
  EXPECT_THAT(values<float>(run_op({"ReduceMax", 18}, {f32({0}, {})})[0]), ElementsAre(-kInfinity));
}

TEST(TensorElementwise, SumsOfManySmallFloatsStayExact) {
  std::vector<float> many(1 << 20, 0.1f);
  many[0] = 1e6f;
  const auto sum = run_op({"ReduceSum", 13}, {f32({1 << 20}, many)})[0].as<float>()[0];
  EXPECT_NEAR(sum, 1e6 + (many.size() - 1) * static_cast<double>(0.1f), 0.1);
}

TEST(TensorElementwise, TopKKeepsTheOrderOfEqualValues) {
  const auto out = run_op({"TopK", 11, {}, 2}, {f32({4}, {1, 3, 3, 2}), i64({1}, {3})});
  EXPECT_THAT(values<int64_t>(out[1]), ElementsAre(1, 2, 3));
  expect_refused({"TopK", 11}, {f32({2}, {1, 2}), i64({1}, {3})}, Code::kInvalidModel, "3 of 2");
}

TEST(TensorElementwise, AnOpThatIsNotThereIsNamedWithWhatThereIs) {
  expect_refused({"Gelu", 18}, {f32({1}, {1})}, Code::kUnsupported,
                 "node 'n' (Gelu, opset 18) is not supported; opsets are 20 and newer");
  expect_refused({"Conv", 18}, {f32({1}, {1})}, Code::kUnsupported, "(Conv, opset 18)");
}

}  // namespace
}  // namespace kvern::eval
