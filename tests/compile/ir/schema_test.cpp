// What each op makes of its inputs' types, and how it refuses: one list, one line a case.
#include <gmock/gmock.h>

#include <cmath>

#include "compile/ir/graph.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::ir {
namespace {

using ::testing::HasSubstr;

Type f32(std::vector<Dim> dims) {
  return Type::tensor(DType::kF32, std::move(dims));
}
Type i32(std::vector<Dim> dims) {
  return Type::tensor(DType::kI32, std::move(dims));
}

struct Case {
  const OpSchema* op;
  std::vector<Type> inputs;
  Attrs attrs;
  std::string wanted;  // types made, "; " between them, or a part of the refusal
};

std::string outcome(const Case& c) {
  try {
    std::string made;
    for (const Type& type : c.op->infer(c.inputs, c.attrs)) {
      made += (made.empty() ? "" : "; ") + to_string(type);
    }
    return made;
  } catch (const Error& error) {
    EXPECT_NE(error.code(), Code::kInternal);
    return error.what();
  }
}

const Attrs kNone = Attrs::of(NoAttrs{});
const Type kX = f32({"tokens", 8});

Attrs input(InputAttrs a) {
  return Attrs::of(a);
}
Attrs weight(Shape shape) {
  return Attrs::of(WeightAttrs{"w", std::move(shape)});
}
Attrs map(std::string program) {
  return Attrs::of(MapAttrs{std::move(program)});
}
Attrs rope(int64_t heads, int64_t dim) {
  return Attrs::of(RopeAttrs{heads, dim, false});
}
Attrs frequencies(RopeFrequencyAttrs a) {
  return Attrs::of(a);
}
Attrs fused(int64_t heads, int64_t kv_heads) {
  return Attrs::of(QkvRopeAppendAttrs{0, heads, kv_heads, 4, false});
}
Attrs attention(int64_t heads, int64_t kv_heads, MaskKind mask = MaskKind::kCausal,
                int64_t window = 0, bool sinks = false) {
  KvAttentionAttrs a{.heads = heads, .kv_heads = kv_heads, .dim_k = 4, .dim_v = 2};
  a.mask = mask;
  a.window = window;
  a.has_sinks = sinks;
  return Attrs::of(a);
}

const Case kCases[] = {
    {&ops::kInput, {}, input({.name = "ids"}), "i32[tokens]"},
    {&ops::kInput,
     {},
     input({.name = "x", .dtype = DType::kF32, .width = 3, .rows = "wanted"}),
     "f32[wanted, 3]"},
    {&ops::kInput, {}, input({}), "an input needs a name"},
    {&ops::kInput, {}, input({.name = "x", .width = -1}), "width must be 0"},
    {&ops::kInput, {}, input({.name = "x", .rows = "rows"}), "rows must be 'tokens' or 'wanted'"},
    {&ops::kWeight, {}, weight({2, 3}), "f32[2, 3]"},
    {&ops::kWeight, {}, weight({}), "rank 1 or 2 wanted"},
    {&ops::kWeight, {}, weight({2, 0}), "dims must be positive"},
    {&ops::kWeight, {}, weight({int64_t{1} << 40, int64_t{1} << 40}), "is too large"},
    {&ops::kOutput, {kX}, Attrs::of(OutputAttrs{"y"}), ""},
    {&ops::kOutput, {kX}, Attrs::of(OutputAttrs{}), "an output needs a name"},
    {&ops::kOutput, {Type::kv()}, Attrs::of(OutputAttrs{"y"}), "x must be a tensor"},
    {&ops::kEmbedding, {i32({"tokens"}), f32({64, 8})}, kNone, "f32[tokens, 8]"},
    {&ops::kEmbedding, {kX, f32({64, 8})}, kNone, "ids must be i32 of rank 1, got f32[tokens, 8]"},
    {&ops::kEmbedding, {i32({"tokens"}), kX}, kNone, "table must have constant dims"},
    {&ops::kGatherRows, {kX, i32({"wanted"})}, kNone, "f32[wanted, 8]"},
    {&ops::kGatherRows, {kX, kX}, kNone, "rows must be i32 of rank 1"},
    {&ops::kSplit, {kX}, Attrs::of(SplitAttrs{{5, 3}}), "f32[tokens, 5]; f32[tokens, 3]"},
    {&ops::kSplit, {kX}, Attrs::of(SplitAttrs{{5, 2}}), "must add up to the last dim of x"},
    {&ops::kSplit, {kX}, Attrs::of(SplitAttrs{{5, 4}}), "do not fit x"},
    {&ops::kSplit, {kX}, Attrs::of(SplitAttrs{{9, -1}}), "do not fit x"},
    {&ops::kSplit, {kX}, Attrs::of(SplitAttrs{}), "must add up"},
    {&ops::kAdd, {kX, kX}, kNone, "f32[tokens, 8]"},
    {&ops::kAdd, {kX, f32({"tokens", 9})}, kNone, "a and b must have one type"},
    {&ops::kMul, {i32({"tokens"}), i32({"tokens"})}, kNone, "a must be an f32 tensor"},
    {&ops::kSilu, {kX}, kNone, "f32[tokens, 8]"},
    {&ops::kSilu, {Type::kv()}, kNone, "x must be an f32 tensor, got !kv"},
    {&ops::kSiluMul, {kX, f32({"wanted", 8})}, kNone, "a and b must have one type"},
    {&ops::kGeluTanh, {kX}, kNone, "f32[tokens, 8]"},
    {&ops::kGeluErf, {kX}, kNone, "f32[tokens, 8]"},
    {&ops::kGeluTanhMul, {kX, kX}, kNone, "f32[tokens, 8]"},
    {&ops::kGeluErfMul, {kX, f32({"wanted", 8})}, kNone, "a and b must have one type"},
    {&ops::kRelu, {kX}, kNone, "f32[tokens, 8]"},
    {&ops::kQuickGelu, {kX}, kNone, "f32[tokens, 8]"},
    {&ops::kTanh, {kX}, kNone, "f32[tokens, 8]"},
    {&ops::kSigmoid, {Type::kv()}, kNone, "x must be an f32 tensor, got !kv"},
    {&ops::kMap,
     {kX, f32({"tokens", 2}), f32({4}), f32({1})},
     map("x0 x1 mul x2 add x3 div"),
     "f32[tokens, 8]"},
    {&ops::kMap, {f32({"tokens", 1}), f32({8})}, map("x0 x1 mul"), "f32[tokens, 8]"},
    {&ops::kMap, {f32({8})}, map("x0"), "at least one input must be rows"},
    {&ops::kMap, {kX, f32({3})}, map("x0 x1 mul"), "do not divide them"},
    {&ops::kMap, {kX, f32({"wanted", 8})}, map("x0 x1 mul"), "must have the same rows"},
    {&ops::kMap, {kX}, map("x0 x1 mul"), "step 1 reads x1 of 1"},
    {&ops::kMap, {kX}, map("x0 mul"), "step 1 finds 1 values"},
    {&ops::kMap, {kX}, map("x0 s1 mul"), "step 1 reads s1 of 1"},
    {&ops::kMap, {kX}, map("x0 x0"), "2 values are left"},
    {&ops::kMap, {kX}, map("x0 fly"), "'fly' is neither an op"},
    {&ops::kMap, {kX}, map(""), "0 steps"},
    {&ops::kSelect, {kX}, Attrs::of(SelectAttrs{{0, 4, 2, 7, 8, -1}}), "f32[tokens, 12]"},
    {&ops::kSelect, {kX}, Attrs::of(SelectAttrs{{0, 5, 2}}), "run [0, 5, 2] leaves x"},
    {&ops::kSelect, {kX}, Attrs::of(SelectAttrs{{0, 5}}), "2 numbers are no runs"},
    {&ops::kRowReduce, {kX}, Attrs::of(RowReduceAttrs{ReduceKind::kMax, 2}), "f32[tokens, 2]"},
    {&ops::kRowReduce, {kX}, Attrs::of(RowReduceAttrs{ReduceKind::kMax, 3}), "3 groups do not"},
    {&ops::kScale, {kX}, Attrs::of(FactorAttrs{2.0f}), "f32[tokens, 8]"},
    {&ops::kScale, {kX}, Attrs::of(FactorAttrs{INFINITY}), "factor must be finite"},
    {&ops::kSoftcap, {kX}, Attrs::of(FactorAttrs{30.0f}), "f32[tokens, 8]"},
    {&ops::kSoftcap, {kX}, Attrs::of(FactorAttrs{0.0f}), "factor must be positive"},
    {&ops::kLinear, {kX, f32({5, 8})}, kNone, "f32[tokens, 5]"},
    {&ops::kLinear, {kX, f32({5, 8}), f32({5})}, kNone, "f32[tokens, 5]"},
    {&ops::kLinear, {kX, f32({8, 5})}, kNone, "their last dims must be equal"},
    {&ops::kLinear, {kX, f32({5, 8}), f32({8})}, kNone, "bias must have w's 5 rows"},
    {&ops::kRmsNorm, {kX, f32({8})}, Attrs::of(NormAttrs{}), "f32[tokens, 8]"},
    {&ops::kRmsNorm, {kX, f32({7})}, Attrs::of(NormAttrs{}), "as wide as one of x's 1 heads"},
    {&ops::kRmsNorm, {kX, f32({4})}, Attrs::of(NormAttrs{1e-5f, 2}), "f32[tokens, 8]"},
    {&ops::kRmsNorm, {kX, f32({8})}, Attrs::of(NormAttrs{1e-5f, 2}), "as wide as one of x's 2"},
    {&ops::kRmsNorm, {kX, f32({8})}, Attrs::of(NormAttrs{1e-5f, 0}), "both must be between 1"},
    {&ops::kAddRmsNorm, {kX, kX, f32({4})}, Attrs::of(NormAttrs{1e-5f, 2}), "only rms_norm"},
    {&ops::kLayerNorm, {kX, f32({8})}, Attrs::of(NormAttrs{}), "f32[tokens, 8]"},
    {&ops::kLayerNorm, {kX, f32({8}), f32({8})}, Attrs::of(NormAttrs{}), "f32[tokens, 8]"},
    {&ops::kLayerNorm, {kX, f32({8}), f32({7})}, Attrs::of(NormAttrs{}), "gamma and beta must"},
    {&ops::kRmsNorm, {kX, f32({8})}, Attrs::of(NormAttrs{-1.0f}), "eps must be in [0, 1)"},
    {&ops::kAddRmsNorm,
     {kX, kX, f32({8})},
     Attrs::of(NormAttrs{}),
     "f32[tokens, 8]; f32[tokens, 8]"},
    {&ops::kAddRmsNorm,
     {kX, f32({"wanted", 8}), f32({8})},
     Attrs::of(NormAttrs{}),
     "x and residual must have one type"},
    {&ops::kRopeFrequencies, {}, Attrs::of(RopeFrequencyAttrs{1e4, 8}), "f32[4]"},
    {&ops::kRopeFrequencies, {}, Attrs::of(RopeFrequencyAttrs{1e4, 7}), "positive and even"},
    {&ops::kRopeFrequencies, {}, Attrs::of(RopeFrequencyAttrs{0, 8}), "base must be positive"},
    {&ops::kRopeFrequencies, {f32({4})}, frequencies({1e4, 8}), "f32[4]"},
    {&ops::kRopeFrequencies, {f32({8})}, frequencies({1e4, 8}), "divisors and the frequencies"},
    {&ops::kRopeFrequencies,
     {},
     frequencies({1e4, 8, FrequencyScaling::kLinear, 0.0}),
     "factor must be positive"},
    {&ops::kRopeFrequencies,
     {},
     frequencies({1e4, 8, FrequencyScaling::kLlama3, 8.0, 4.0, 1.0, 64}),
     "low and high must be positive and rising"},
    {&ops::kRopeFrequencies,
     {},
     frequencies({1e4, 8, FrequencyScaling::kLlama3, 8.0, 1.0, 4.0, 0}),
     "original context length must be positive"},
    {&ops::kRopeAngles, {i32({"tokens"}), f32({2})}, kNone, "f32[tokens, 2]; f32[tokens, 2]"},
    {&ops::kRopeAngles, {kX, f32({2})}, kNone, "positions must be i32 of rank 1"},
    {&ops::kRope, {kX, f32({"tokens", 2}), f32({"tokens", 2})}, rope(2, 4), "f32[tokens, 8]"},
    {&ops::kRope, {kX, f32({"tokens", 2}), f32({"tokens", 2})}, rope(3, 4), "x must be 12 wide"},
    {&ops::kRope, {kX, f32({"tokens", 3}), f32({"tokens", 3})}, rope(2, 4), "turns more than"},
    {&ops::kRope, {kX, f32({"wanted", 2}), f32({"wanted", 2})}, rope(2, 4), "the same rows"},
    {&ops::kRope,
     {kX, f32({"tokens", 2}), f32({"tokens", 2})},
     rope(int64_t{1} << 40, 4),
     "both must be between 1 and"},
    {&ops::kKvAppend, {kX, kX}, Attrs::of(KvAppendAttrs{0, 2, 4, 4}), "!kv"},
    {&ops::kKvAppend, {kX, kX}, Attrs::of(KvAppendAttrs{-1, 2, 4, 4}), "slot must be 0 or more"},
    {&ops::kKvAppend, {kX, kX}, Attrs::of(KvAppendAttrs{0, 2, 4, 5}), "v must be 10 wide"},
    {&ops::kKvAppend,
     {kX, f32({"wanted", 8})},
     Attrs::of(KvAppendAttrs{0, 2, 4, 4}),
     "k and v must have the same rows"},
    {&ops::kKvAttention, {kX, Type::kv()}, attention(2, 1), "f32[tokens, 4]"},
    {&ops::kKvAttention, {kX, kX}, attention(2, 1), "kv must be !kv, got f32[tokens, 8]"},
    {&ops::kKvAttention, {kX, Type::kv()}, attention(2, 3), "2 heads cannot share 3 KV heads"},
    {&ops::kKvAttention, {kX, Type::kv()}, attention(2, 0), "2 heads cannot share 0 KV heads"},
    {&ops::kKvAttention,
     {kX, Type::kv()},
     attention(2, 1, MaskKind::kWindow),
     "window must be positive"},
    {&ops::kKvAttention, {kX, Type::kv()}, attention(2, 1, MaskKind::kExplicit), "no input yet"},
    {&ops::kKvAttention,
     {kX, Type::kv()},
     attention(2, 1, MaskKind::kCausal, 0, true),
     "ask for 3 inputs, got 2"},
    {&ops::kKvAttention,
     {kX, Type::kv(), f32({2})},
     attention(2, 1, MaskKind::kCausal, 0, true),
     "f32[tokens, 4]"},
    {&ops::kKvAttention,
     {kX, Type::kv(), f32({3})},
     attention(2, 1, MaskKind::kCausal, 0, true),
     "one value per head"},
    {&ops::kQkvRopeAppend,
     {kX, f32({"tokens", 4}), f32({"tokens", 4}), f32({"tokens", 2}), f32({"tokens", 2})},
     fused(2, 1),
     "f32[tokens, 8]; !kv"},
    {&ops::kQkvRopeAppend,
     {kX, kX, f32({"tokens", 4}), f32({"tokens", 2}), f32({"tokens", 2})},
     fused(2, 1),
     "k must be 4 wide"},
    {&ops::kQkvRopeAppend,
     {kX, f32({"tokens", 4}), f32({"tokens", 4}), f32({"tokens", 3}), f32({"tokens", 3})},
     fused(2, 1),
     "turns more than"},
};

TEST(Schemas, MakeAndRefuseAsListed) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.op->name) + " -> " + c.wanted);
    if (c.wanted.empty())
      EXPECT_EQ(outcome(c), "");
    else
      EXPECT_THAT(outcome(c), HasSubstr(c.wanted));
  }
}

TEST(Schemas, RunsOfAListOfIndices) {
  EXPECT_EQ(select_runs({3}), (std::vector<int64_t>{3, 1, 1}));
  EXPECT_EQ(select_runs({0, 2, 4, 6, 1, 3, 5, 7}), (std::vector<int64_t>{0, 4, 2, 1, 4, 2}));
  EXPECT_EQ(select_runs({4, 5, 0, 1, 2}), (std::vector<int64_t>{4, 2, 1, 0, 3, 1}));
  EXPECT_EQ(select_runs({7, 7, 7}), (std::vector<int64_t>{7, 3, 0}));
}

TEST(Schemas, EveryOpHasACaseAndItsNameFindsIt) {
  for (const OpSchema* op : all_ops()) {
    EXPECT_EQ(find_op(op->name), op);
    EXPECT_TRUE(std::any_of(std::begin(kCases), std::end(kCases), [&](const Case& c) {
      return c.op == op;
    })) << op->name;
  }
  EXPECT_EQ(find_op("gemm"), nullptr);
}

TEST(Graph, RefusalNamesOpAndNode) {
  Graph graph;
  const ValueId x =
      graph.add1(ops::kInput, {}, input({.name = "x", .dtype = DType::kF32, .width = 4}), "x");
  try {
    graph.add(ops::kRmsNorm, {x}, {}, "n", "layers.3/Norm_2");
    FAIL() << "one input is too few";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rms_norm 'layers.3/Norm_2': takes 2 to 2 inputs, got 1"));
  }
}

TEST(Graph, EditsKeepOrderUsersAndNames) {
  Graph graph;
  const Attrs in = input({.name = "x", .dtype = DType::kF32, .width = 4});
  const ValueId x = graph.add1(ops::kInput, {}, in, "x");
  const ValueId a = graph.add1(ops::kSilu, {x}, {}, "a");
  const ValueId again = graph.add1(ops::kSilu, {a}, {}, "a");
  graph.add(ops::kOutput, {again}, Attrs::of(OutputAttrs{"y"}), "");
  EXPECT_EQ(graph.value(again).name, "a_1");
  EXPECT_EQ(graph.users(a), std::vector<size_t>{2});

  const ValueId middle = graph.insert(2, ops::kAdd, {a, x}, {}, "sum")[0];
  EXPECT_EQ(graph.producer(middle), 2u);
  EXPECT_EQ(graph.producer(again), 3u);
  graph.replace_all_uses(again, middle);
  EXPECT_TRUE(graph.users(again).empty());
  graph.erase({3});
  EXPECT_EQ(graph.nodes().size(), 4u);
  EXPECT_EQ(graph.unique_name("a_1"), "a_1");
  EXPECT_NO_THROW(verify(graph));
  EXPECT_THROW(graph.erase({1}), InternalError);  // the sum still reads it
}

}  // namespace
}  // namespace kvern::ir
