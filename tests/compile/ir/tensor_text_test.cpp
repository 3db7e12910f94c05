#include <gtest/gtest.h>

#include <cmath>

#include "compile/ir/tensor_graph.h"
#include "kvern/error.h"

namespace kvern::ir {
namespace {

constexpr const char* kText = R"(input %ids int64[batch, seq]
input %m bool[]
input %free
input %odd float[?, "2", "past + 1", 3]
const %w float[2, 2] = {1, 2.5, -inf, 1e-20}
const %h float16[3] = {0.5, 65504, nan}
const %b bfloat16[1] = {3.390625}
const %d double[1] = {0.1}
const %i8 int8[2] = {-128, 127}
const %u64 uint64[1] = {-1}
const %i4 int4[2] = {-8, 7}
const %t bool[2] = {1, 0}
const %none int64[0] = {}
const %same float[8, 8] = -2
const %scalar int64[] = {7}
%y = MatMul(%odd, %w) opset 18
%z, _, %"a b" = com.microsoft.SkipSimplifiedLayerNormalization(%y, _, %w) {epsilon = 1e-05} opset 1 named "l.0/n"
%r = If(%m) {else_branch = graph {
  const %c float[1] = {1}
  output %c
}, then_branch = graph {
  capture %mine = %z
  %q = Loop(_, %mine) {body = graph {
    capture %mine = %mine
    output %mine
  }} opset 18
  output %q float
}} opset 18
%s = Odd(%r) {a = 3, b = -3.0, c = "x\"y", d = [1, -2], e = [1.0, 0.1], f = ["p"], g = tensor int64[1] = {4}, h = [], i = floats [], j = strings [], k = inf} opset 18
output %s float[1]
output %ids int64[batch, seq]
)";

TEST(TensorText, PrintsWhatItParses) {
  const TensorGraph graph = parse_tensor_graph(kText);
  EXPECT_EQ(print(graph), kText);
  EXPECT_NO_THROW(verify(graph));
}

TEST(TensorText, KeepsValues) {
  const TensorGraph graph = parse_tensor_graph(kText);
  EXPECT_EQ(graph.constants.at(graph.find("w")).as<float>()[3], 1e-20F);
  EXPECT_EQ(graph.constants.at(graph.find("d")).as<double>()[0], 0.1);
  EXPECT_EQ(graph.constants.at(graph.find("u64")).as<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(graph.constants.at(graph.find("same")).as<float>()[63], -2);
  EXPECT_EQ(graph.nodes[1].f("epsilon", 0), static_cast<double>(1e-5F));
  EXPECT_EQ(graph.nodes[1].domain, "com.microsoft");
  EXPECT_EQ(graph.nodes[1].name, "l.0/n");
  EXPECT_EQ(graph.nodes[3].ints("d"), (std::vector<int64_t>{1, -2}));
  EXPECT_TRUE(std::isinf(graph.nodes[3].f("k", 0)));
}

TEST(TensorText, BodiesCaptureNamesOfOuterGraphs) {
  const TensorGraph graph = parse_tensor_graph(R"(
    input %c bool
    input %x float
    %y = If(%c) {then_branch = graph { %a = Neg(%x) output %a }, else_branch = graph { output %x }}
    output %y)");
  const auto body = graph.nodes[0].graph("then_branch");
  ASSERT_EQ(body->captures.size(), 1U);
  EXPECT_EQ(body->captures[0].first, graph.find("x"));
  EXPECT_EQ(body->captures[0].second, body->find("x"));
  EXPECT_EQ(graph.nodes[0].opset, 18);
}

TEST(TensorText, GivesEqualNamesAndEmptyOnesTexts) {
  TensorGraph graph;
  graph.inputs = {graph.add_value("x"), graph.add_value("x"), graph.add_value("")};
  EXPECT_EQ(print(graph), "input %x\ninput %x.1\ninput %v2\n");
}

std::string refusal(const char* text) {
  try {
    parse_tensor_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TensorText, RefusesWithTheReason) {
  EXPECT_NE(refusal("%y = Neg(%x)").find("nothing before this makes %x"), std::string::npos);
  EXPECT_NE(refusal("input %x\n%x = Neg(%x)").find("%x is made twice"), std::string::npos);
  EXPECT_NE(refusal("const %x int8[1] = {128}").find("does not fit into int8"), std::string::npos);
  EXPECT_NE(refusal("const %x int7[1] = {1}").find("no element type"), std::string::npos);
  EXPECT_NE(refusal("const %x float[2] = {1}").find("expected ','"), std::string::npos);
  EXPECT_NE(refusal("const %x float[70000] = \"...\"").find("left out"), std::string::npos);
}

}  // namespace
}  // namespace kvern::ir
