// Ops that move elements: traps of indices and shapes, and elements of any size.
#include <cstring>
#include <limits>

#include "tests/compile/eval/tensor_op.h"

namespace kvern::eval {
namespace {

using testing::ElementsAre;

// 24-byte elements, each filled with its number.
Array symbols(Shape shape) {
  Array out(ElementType::kSymbol, std::move(shape));
  const auto bytes = out.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i / 24);
  return out;
}

std::vector<int> numbers(const Array& array) {
  std::vector<int> out;
  for (size_t at = 0; at < array.bytes().size(); at += 24) {
    EXPECT_EQ(std::memcmp(&array.bytes()[at], &array.bytes()[at + 1], 23), 0) << "a torn element";
    out.push_back(std::to_integer<int>(array.bytes()[at]));
  }
  return out;
}

TEST(TensorLayout, SymbolsOf24BytesGoThroughEveryLayoutOp) {
  const Array x = symbols({2, 3});
  EXPECT_THAT(numbers(run_op({"Transpose"}, {x})[0]), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(numbers(run_op({"Slice"}, {x, i64({1}, {-1}), i64({1}, {-9}), i64({1}, {1}),
                                         i64({1}, {-2})})[0]),
              ElementsAre(2, 0, 5, 3));
  EXPECT_THAT(numbers(run_op({"Concat", 13, {{"axis", int64_t{1}}}}, {x, x})[0]),
              ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  EXPECT_THAT(numbers(run_op({"Gather", 13, {{"axis", int64_t{1}}}}, {x, i64({}, {-1})})[0]),
              ElementsAre(2, 5));
  EXPECT_THAT(numbers(run_op({"Expand"}, {symbols({2, 1}), i64({3}, {2, 1, 2})})[0]),
              ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(numbers(run_op({"Tile"}, {symbols({2}), i64({1}, {2})})[0]), ElementsAre(0, 1, 0, 1));
  const auto parts =
      run_op({"Split", 18, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, 2}, {x});
  EXPECT_THAT(numbers(parts[0]), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(numbers(parts[1]), ElementsAre(2, 5));
  EXPECT_THAT(numbers(run_op({"ScatterND"}, {x, i64({1, 1}, {1}), symbols({1, 3})})[0]),
              ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(numbers(run_op({"ScatterElements", 18, {{"axis", int64_t{1}}}},
                             {x, i64({2, 1}, {2, -3}), symbols({2, 1})})[0]),
              ElementsAre(0, 1, 0, 1, 4, 5));
  EXPECT_THAT(numbers(run_op({"Where"}, {boolean({3}, {1, 0, 1}), x, symbols({})})[0]),
              ElementsAre(0, 0, 2, 3, 0, 5));
  EXPECT_THAT(numbers(run_op({"Reshape"}, {x, i64({2}, {3, -1})})[0]),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TensorLayout, LargeTranspositionsGoInTilesAndStayRight) {
  constexpr int64_t kRows = 70, kColumns = 45;
  std::vector<int64_t> numbers(2 * kRows * kColumns);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  const Array y = run_op({"Transpose", 13, {{"perm", std::vector<int64_t>{0, 2, 1}}}},
                         {i64({2, kRows, kColumns}, numbers)})[0];
  ASSERT_EQ(y.shape(), (Shape{2, kColumns, kRows}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t c = 0; c < kColumns; ++c) {
      for (int64_t r = 0; r < kRows; ++r) {
        ASSERT_EQ(y.as<int64_t>()[static_cast<size_t>((b * kColumns + c) * kRows + r)],
                  (b * kRows + r) * kColumns + c);
      }
    }
  }
}

TEST(TensorLayout, SliceTakesEndsOfAnySize) {
  const Array x = i64({5}, {0, 1, 2, 3, 4});
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const auto slice = [&](int64_t from, int64_t to, int64_t step) {
    return values<int64_t>(run_op(
        {"Slice"}, {x, i64({1}, {from}), i64({1}, {to}), i64({1}, {0}), i64({1}, {step})})[0]);
  };
  EXPECT_THAT(slice(1, kMost, 1), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(slice(-1, kLeast, -1), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(slice(kMost, kLeast, kLeast), ElementsAre(4));
  EXPECT_THAT(slice(0, kMost, kMost), ElementsAre(0));
  EXPECT_THAT(slice(4, 2, 1), ElementsAre());
  EXPECT_THAT(slice(-100, 2, 1), ElementsAre(0, 1));
  expect_refused({"Slice"}, {x, i64({1}, {0}), i64({1}, {5}), i64({1}, {0}), i64({1}, {0})},
                 Code::kInvalidModel, "step is 0");
  expect_refused({"Slice"}, {x, i64({1}, {0}), i64({1}, {5}), i64({1}, {1})}, Code::kInvalidModel,
                 "axis 1");
}

TEST(TensorLayout, OldSliceReadsAttributes) {
  const Op op{"Slice",
              9,
              {{"starts", std::vector<int64_t>{1}},
               {"ends", std::vector<int64_t>{-1}},
               {"axes", std::vector<int64_t>{0}}}};
  EXPECT_THAT(values<int64_t>(run_op(op, {i64({4}, {0, 1, 2, 3})})[0]), ElementsAre(1, 2));
}

TEST(TensorLayout, ReshapeCopiesDimsUnlessZeroIsAllowed) {
  const Array x = f32({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(run_op({"Reshape"}, {x, i64({2}, {0, -1})})[0].shape(), (Shape{2, 3}));
  const Op zero{"Reshape", 14, {{"allowzero", int64_t{1}}}};
  EXPECT_EQ(run_op(zero, {f32({0, 3}, {}), i64({2}, {0, 7})})[0].shape(), (Shape{0, 7}));
  expect_refused(zero, {x, i64({2}, {0, 3})}, Code::kInvalidModel, "cannot be seen as");
  expect_refused({"Reshape"}, {x, i64({2}, {4, -1})}, Code::kInvalidModel, "cannot be seen as");
  expect_refused({"Reshape"}, {x, i64({2}, {int64_t{1} << 62, int64_t{1} << 62})},
                 Code::kInvalidModel, "not a shape");
  expect_refused({"Reshape"}, {x, i64({1}, {-7})}, Code::kInvalidModel, "not a shape");
}

TEST(TensorLayout, ExpandGoesBothWays) {
  // A dim of the wish may be 1 where the input has more.
  const Array y = run_op({"Expand"}, {f32({2, 1}, {1, 2}), i64({2}, {1, 3})})[0];
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_THAT(values<float>(y), ElementsAre(1, 1, 1, 2, 2, 2));
  expect_refused({"Expand"}, {f32({2}, {1, 2}), i64({1}, {3})}, Code::kInvalidModel, "[2]");
  expect_refused({"Expand"}, {f32({1}, {1}), i64({2}, {1 << 30, 1 << 30})}, Code::kInvalidModel,
                 "bytes");
}

TEST(TensorLayout, SqueezeAndUnsqueezeReadAxesOfBothForms) {
  const Op old{"Unsqueeze", 11, {{"axes", std::vector<int64_t>{0, 2}}}};
  EXPECT_EQ(run_op(old, {f32({3}, {1, 2, 3})})[0].shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(run_op({"Unsqueeze", 13}, {f32({3}, {1, 2, 3}), i64({1}, {-1})})[0].shape(),
            (Shape{3, 1}));
  EXPECT_EQ(run_op({"Squeeze", 13}, {f32({1, 2, 1}, {1, 2})})[0].shape(), (Shape{2}));
  // An empty list of axes squeezes nothing.
  EXPECT_EQ(run_op({"Squeeze", 13}, {f32({1, 2, 1}, {1, 2}), i64({0}, {})})[0].shape(),
            (Shape{1, 2, 1}));
  expect_refused({"Squeeze", 13}, {f32({2}, {1, 2}), i64({1}, {0})}, Code::kInvalidModel, "not 1");
}

TEST(TensorLayout, SplitRefusesPartsThatDoNotAddUp) {
  const Array x = f32({4}, {1, 2, 3, 4});
  expect_refused({"Split", 18, {}, 2}, {x, i64({2}, {3, 2})}, Code::kInvalidModel, "do not make 4");
  expect_refused({"Split", 18, {}, 2}, {x, i64({2}, {-1, 5})}, Code::kInvalidModel, "do not make");
}

TEST(TensorLayout, TriluAcceptsDiagonalsOutsideOfTheMatrix) {
  const Array x = f32({2, 2}, {1, 2, 3, 4});
  const Op lower{"Trilu", 14, {{"upper", int64_t{0}}}};
  EXPECT_THAT(values<float>(run_op(lower, {x, i64({}, {9})})[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values<float>(run_op(lower, {x, i64({}, {-9})})[0]), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(values<float>(run_op({"Trilu"}, {x, i64({}, {1})})[0]), ElementsAre(0, 2, 0, 0));
}

TEST(TensorLayout, PadReflectsMoreThanOnce) {
  const Op op{"Pad", 18, {{"mode", std::string("reflect")}}};
  EXPECT_THAT(values<float>(run_op(op, {f32({3}, {0, 1, 2}), i64({2}, {5, 1})})[0]),
              ElementsAre(1, 0, 1, 2, 1, 0, 1, 2, 1));
  EXPECT_THAT(values<float>(run_op({"Pad"}, {f32({3}, {7, 8, 9}), i64({2}, {-1, 1})})[0]),
              ElementsAre(8, 9, 0));
}

}  // namespace
}  // namespace kvern::eval
