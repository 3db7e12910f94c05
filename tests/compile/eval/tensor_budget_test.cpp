// What a hostile graph may cost: memory with temporaries, trips of nested loops, products, time.
#include "compile/ir/work_budget.h"
#include "tests/compile/eval/tensor_op.h"

namespace kvern::eval {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Error refusal(const std::string& text, const TensorRunOptions& options = {}) {
  try {
    run_tensor_graph(ir::parse_tensor_graph(text, 21), {}, options);
  } catch (const Error& error) {
    return error;
  }
  return {Code::kInternal, "nothing was refused"};
}

TEST(TensorBudget, WhatLoopsStackCountsAndTheNodeIsNamed) {
  TensorRunOptions options;
  options.max_bytes = 1 << 20;  // 16 trips of 64 KiB
  const Error error = refusal(R"(
    const %trips int64[] = {1000}
    const %size int64[1] = {16384}
    %all = Loop(%trips, _) {body = graph {
      input %i
      input %c
      %z = ConstantOfShape(%size)
      output %c
      output %z
    }}
    output %all)",
                              options);
  EXPECT_EQ(error.code(), Code::kOutOfMemory);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("ConstantOfShape"), HasSubstr("more than the limit")));
}

TEST(TensorBudget, TripsOfNestedLoopsAreCountedTogether) {
  const std::string text = R"(
    const %trips int64[] = {90}
    const %x float[] = {1}
    %y = Loop(%trips, _, %x) {body = graph {
      input %i
      input %c
      input %v
      %w = Loop(%trips, _, %v) {body = graph {
        input %j
        input %d
        input %u
        output %d
        output %u
      }}
      output %c
      output %w
    }}
    output %y)";
  TensorRunOptions options;
  options.max_loop_trips = 100;
  EXPECT_THAT(refusal(text, options).what(), HasSubstr("all loops together"));
  options.max_loop_trips = 1100;  // 90 * 91 in all
  EXPECT_THAT(refusal(text, options).what(), HasSubstr("nothing was refused"));
}

TEST(TensorBudget, ProductsAreCountedBeforeTheyAreComputed) {
  const ir::WorkBudget budget({.max_bytes = 0, .max_multiply_adds = 1e6, .stop = {}});
  const Array a(ElementType::kFloat, {101, 101});
  expect_refused({"MatMul"}, {a, a}, Code::kUnsupported, "multiplications");
  const Error error = refusal(R"(
    const %size int64[1] = {10000}
    %a = ConstantOfShape(%size)
    %y = Einsum(%a, %a, %a) {equation = "a,b,c->"}
    output %y)");
  EXPECT_EQ(error.code(), Code::kUnsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("Einsum"), HasSubstr("multiplications")));
}

struct Stopped {};

TEST(TensorBudget, ANodeIsNotStartedAfterAStop) {
  const ir::WorkBudget budget(
      {.max_bytes = 0, .max_multiply_adds = 0, .stop = [] { throw Stopped{}; }});
  EXPECT_THROW(refusal("const %x float[] = {1}\n%y = Neg(%x)\noutput %y\n"), Stopped);
}

TEST(TensorBudget, ElementsThatOutliveTheirBudgetAreGivenBack) {
  Array kept;
  {
    const ir::WorkBudget budget({.max_bytes = 100, .max_multiply_adds = 0, .stop = {}});
    kept = Array(ElementType::kFloat, {20});
    EXPECT_THROW(Array(ElementType::kFloat, {6}), Error);
    kept = Array();
    EXPECT_NO_THROW(kept = Array(ElementType::kFloat, {20}));
  }
  EXPECT_NO_THROW(Array(ElementType::kFloat, {1000}));
  kept = Array();
}

TEST(TensorBudget, EmptyArraysOfHugeDimsTakeNoTime) {
  const int64_t huge = int64_t{1} << 40;
  const Array empty(ElementType::kUint8, {huge, 2, 0});
  const Array y = run_op({"DequantizeLinear"}, {empty, f32({2}, {1, 1})})[0];
  EXPECT_EQ(y.shape(), (Shape{huge, 2, 0}));
  const Array x(ElementType::kFloat, {huge, 2, 0});
  EXPECT_EQ(run_op({"QuantizeLinear"}, {x, f32({2}, {1, 1})})[0].count(), 0);
  const Array wide(ElementType::kFloat, {0, huge});
  EXPECT_EQ(run_op({"TopK"}, {wide, i64({1}, {1})})[0].shape(), (Shape{0, 1}));
  Op attention{"Attention", 23};
  attention.attrs["q_num_heads"] = int64_t{1};
  attention.attrs["kv_num_heads"] = int64_t{1};
  const Array rows(ElementType::kFloat, {1, int64_t{1} << 20, 0});
  EXPECT_EQ(run_op(attention, {rows, rows, rows})[0].count(), 0);
}

TEST(TensorBudget, AZeroPointWithoutElementsIsRefused) {
  const Array codes(ElementType::kUint8, {1, 1});
  const Array none(ElementType::kUint8, {0});
  const Array zero(ElementType::kUint8, {});
  const Array one = f32({}, {1});
  expect_refused({"QLinearMatMul"}, {codes, one, zero, codes, one, zero, one, none},
                 Code::kUnsupported, "zero point of shape [0]");
}

}  // namespace
}  // namespace kvern::eval
