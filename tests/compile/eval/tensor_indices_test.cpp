// Gathering and scattering: hostile indices are refused, negative ones count from the end.
#include <fmt/format.h>

#include "tests/compile/eval/tensor_op.h"

namespace kvern::eval {
namespace {

using testing::ElementsAre;

const Array kX = f32({2, 3}, {0, 1, 2, 3, 4, 5});
constexpr int64_t kFar = int64_t{1} << 62;

TEST(TensorIndices, OutsideIsRefusedEverywhere) {
  for (const int64_t index : {int64_t{2}, int64_t{-3}, kFar, -kFar}) {
    const std::string words = fmt::format("index {} is outside of a dim of 2", index);
    expect_refused({"Gather"}, {kX, i64({1}, {index})}, Code::kInvalidModel, words);
    expect_refused({"GatherElements"}, {kX, i64({1, 1}, {index})}, Code::kInvalidModel, words);
    expect_refused({"GatherND"}, {kX, i64({1, 1}, {index})}, Code::kInvalidModel, words);
    expect_refused({"ScatterND"}, {kX, i64({1, 1}, {index}), f32({1, 3}, {1, 2, 3})},
                   Code::kInvalidModel, words);
    expect_refused({"ScatterElements"}, {kX, i64({1, 1}, {index}), f32({1, 1}, {1})},
                   Code::kInvalidModel, words);
  }
}

TEST(TensorIndices, IndicesThatDoNotLieInTheDataAreRefused) {
  expect_refused({"GatherElements"}, {kX, i64({1, 4}, {0, 0, 0, 0})}, Code::kInvalidModel,
                 "do not lie in");
  expect_refused({"ScatterND"}, {kX, i64({1, 3}, {0, 0, 0}), f32({1}, {1})}, Code::kInvalidModel,
                 "do not point into");
  expect_refused({"ScatterND"}, {kX, i64({1, 1}, {0}), f32({1, 2}, {1, 2})}, Code::kInvalidModel,
                 "[1, 3] is wanted");
  expect_refused({"GatherND"}, {kX, i64({}, {0})}, Code::kInvalidModel, "batch_dims");
  expect_refused({"Gather"}, {kX, f32({1}, {0})}, Code::kInvalidModel, "int32 or int64");
}

TEST(TensorIndices, EmptyIndicesGiveEmptyResults) {
  EXPECT_EQ(run_op({"Gather"}, {kX, i64({0}, {})})[0].shape(), (Shape{0, 3}));
  EXPECT_THAT(values<float>(run_op({"ScatterND"}, {kX, i64({0, 1}, {}), f32({0, 3}, {})})[0]),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TensorIndices, ScatterAddsWhatFallsOnOneElement) {
  const Op op{"ScatterND", 18, {{"reduction", std::string("add")}}};
  EXPECT_THAT(values<float>(run_op(op, {kX, i64({2, 2}, {0, 1, 0, 1}), f32({2}, {10, 20})})[0]),
              ElementsAre(0, 31, 2, 3, 4, 5));
}

TEST(TensorIndices, TheInputOfAScatterStaysAsItWas) {
  const Array before = f32({2}, {1, 2});
  run_op({"ScatterND"}, {before, i64({1, 1}, {0}), f32({1}, {9})});
  EXPECT_THAT(values<float>(before), ElementsAre(1, 2));
}

TEST(TensorIndices, TensorScatterIsLinearOrCircularPerSequence) {
  const Array cache = f32({2, 1, 3, 1}, {0, 0, 0, 0, 0, 0});
  const Array update = f32({2, 1, 2, 1}, {1, 2, 3, 4});
  EXPECT_THAT(values<float>(run_op({"TensorScatter", 24}, {cache, update, i64({2}, {1, 0})})[0]),
              ElementsAre(0, 1, 2, 3, 4, 0));
  const Op circular{"TensorScatter", 24, {{"mode", std::string("circular")}}};
  EXPECT_THAT(values<float>(run_op(circular, {cache, update, i64({2}, {2, 1})})[0]),
              ElementsAre(2, 0, 1, 0, 3, 4));
  expect_refused({"TensorScatter", 24}, {cache, update, i64({2}, {2, 0})}, Code::kInvalidModel,
                 "do not fit");
  expect_refused({"TensorScatter", 24}, {cache, update, i64({2}, {-1, 0})}, Code::kInvalidModel,
                 "do not fit");
}

TEST(TensorIndices, GatherNdGoesBatchByBatch) {
  const Op op{"GatherND", 13, {{"batch_dims", int64_t{1}}}};
  EXPECT_THAT(values<float>(run_op(op, {kX, i64({2, 1}, {2, -3})})[0]), ElementsAre(2, 3));
}

}  // namespace
}  // namespace kvern::eval
