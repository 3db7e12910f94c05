// Functions of a file, inlined.
#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

Msg function(std::string_view name, const Names& inputs, const Names& outputs,
             const std::vector<Msg>& nodes) {
  Msg out = Msg().text(1, name).text(10, "own");
  for (const std::string& input : inputs) out.text(4, input);
  for (const std::string& output : outputs) out.text(5, output);
  for (const Msg& each : nodes) out.sub(7, each);
  return out;
}

Msg call(std::string_view name, const Names& inputs, const Names& outputs, std::string_view who) {
  return node(name, inputs, outputs, who, "own");
}

Msg graph_with(const std::vector<Msg>& nodes, const Names& outputs) {
  Msg out = Msg().sub(11, Msg().text(1, "x"));
  for (const Msg& each : nodes) out.sub(1, each);
  for (const std::string& output : outputs) out.sub(12, Msg().text(1, output));
  return out;
}

ir::TensorGraph read(const Msg& graph, const std::vector<Msg>& functions) {
  Msg file = model(graph);
  for (const Msg& each : functions) file.sub(25, each);
  return read_onnx_bytes(bytes_of(file.bytes), "t.onnx").model.graph;
}

std::string refused(const Msg& graph, const std::vector<Msg>& functions) {
  return refusal_of(Code::kInvalidModel, [&] { read(graph, functions); });
}

TEST(OnnxFunction, IsInlinedWithFreshNames) {
  const Msg twice =
      function("Twice", {"a"}, {"r"}, {node("Neg", {"a"}, {"t"}), node("Abs", {"t"}, {"r"})});
  const ir::TensorGraph graph = read(
      graph_with({call("Twice", {"x"}, {"t"}, "one"), call("Twice", {"t"}, {"y"}, "two")}, {"y"}),
      {twice});
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre(graph.find("x")));
  EXPECT_THAT(graph.nodes[0].outputs, ElementsAre(graph.find("one/t")));
  EXPECT_THAT(graph.nodes[1].outputs, ElementsAre(graph.find("t")));
  EXPECT_THAT(graph.nodes[2].inputs, ElementsAre(graph.find("t")));
  EXPECT_THAT(graph.nodes[2].outputs, ElementsAre(graph.find("two/t")));
  EXPECT_THAT(graph.nodes[3].outputs, ElementsAre(graph.find("y")));
}

TEST(OnnxFunction, CallsOfOneNameStayApart) {
  const Msg twice =
      function("Twice", {"a"}, {"r"}, {node("Neg", {"a"}, {"t"}), node("Abs", {"t"}, {"r"})});
  const ir::TensorGraph graph =
      read(graph_with({call("Twice", {"x"}, {"u"}, ""), call("Twice", {"u"}, {"y"}, "")}, {"y"}),
           {twice});
  EXPECT_THAT(graph.nodes.at(0).outputs, ElementsAre(graph.find("Twice/t")));
  EXPECT_THAT(graph.nodes.at(2).outputs, ElementsAre(graph.find("Twice/t_1")));
}

TEST(OnnxFunction, TakesAttributesOfTheCallAndDefaults) {
  Msg inner = node("Softmax", {"a"}, {"r"});
  inner.sub(5, attr_ref("axis", 2, "dim")).sub(5, attr_ref("beta", 1, "left_out"));
  inner.sub(5, attr_ref("mode", 3, "kind"));
  Msg soft = function("Soft", {"a"}, {"r"}, {inner});
  soft.text(6, "dim").text(6, "left_out").sub(11, attr_s("kind", "usual"));
  const ir::TensorGraph graph =
      read(graph_with({call("Soft", {"x"}, {"y"}, "s").sub(5, attr_i("dim", -2))}, {"y"}), {soft});
  const ir::TensorNode& op = graph.nodes.at(0);
  EXPECT_EQ(op.i("axis", 0), -2);
  EXPECT_FALSE(op.has("beta"));
  EXPECT_EQ(op.s("mode", ""), "usual");
}

TEST(OnnxFunction, HasItsOwnOpsets) {
  Msg old = function("Old", {"a"}, {"r"}, {node("Neg", {"a"}, {"r"})});
  old.sub(9, opset(13));
  const ir::TensorGraph graph = read(graph_with({call("Old", {"x"}, {"y"}, "")}, {"y"}), {old});
  EXPECT_EQ(graph.nodes.at(0).opset, 13);
}

TEST(OnnxFunction, MayCallOthersAndHoldBodies) {
  Msg branch = Msg().sub(1, node("Neg", {"a"}, {"q"})).sub(12, Msg().text(1, "q"));
  const Msg choose =
      function("Choose", {"c", "a"}, {"r"},
               {node("If", {"c"}, {"r"}, "if").sub(5, attr_g("then_branch", branch))});
  const Msg outer = function("Outer", {"v"}, {"w"}, {call("Choose", {"v", "v"}, {"w"}, "in")});
  const ir::TensorGraph graph =
      read(graph_with({call("Outer", {"x"}, {"y"}, "out")}, {"y"}), {outer, choose});
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].name, "out/in/if");
  const auto body = graph.nodes[0].graph("then_branch");
  ASSERT_EQ(body->captures.size(), 1u);
  EXPECT_EQ(body->captures[0].first, graph.find("x"));
}

TEST(OnnxFunction, HandsInputsOnAndGivesOneValueTwice) {
  const Msg both = function("Both", {"a", "b"}, {"a", "r", "r"}, {node("Neg", {"a"}, {"r"})});
  const ir::TensorGraph graph =
      read(graph_with({call("Both", {"x"}, {"p", "q", "s"}, "b")}, {"p", "q", "s"}), {both});
  std::vector<std::string> ops;
  for (const ir::TensorNode& each : graph.nodes) ops.push_back(each.op);
  EXPECT_THAT(ops, UnorderedElementsAre("Neg", "Identity", "Identity"));
}

TEST(OnnxFunction, InputsLeftOutStayLeftOut) {
  const Msg clip = function("C", {"a", "low"}, {"r"}, {node("Clip", {"a", "low"}, {"r"})});
  const ir::TensorGraph graph = read(graph_with({call("C", {"x"}, {"y"}, "")}, {"y"}), {clip});
  EXPECT_THAT(graph.nodes.at(0).inputs, ElementsAre(graph.find("x"), ir::kNoValue));
}

TEST(OnnxFunction, RecursionIsRefused) {
  const Msg a = function("A", {"v"}, {"r"}, {call("B", {"v"}, {"r"}, "b")});
  const Msg b = function("B", {"v"}, {"r"}, {call("A", {"v"}, {"r"}, "a")});
  EXPECT_THAT(refused(graph_with({call("A", {"x"}, {"y"}, "")}, {"y"}), {a, b}),
              HasSubstr("calls function 'A' from within itself"));
}

TEST(OnnxFunction, ContradictionsAreRefused) {
  const Msg f = function("F", {"a"}, {"r"}, {node("Neg", {"a"}, {"r"})});
  EXPECT_THAT(refused(graph_with({call("F", {"x", "x"}, {"y"}, "c")}, {"y"}), {f}),
              HasSubstr("gives 2 inputs"));
  EXPECT_THAT(refused(graph_with({call("F", {"x"}, {"y"}, "c")}, {"y"}), {f, f}),
              HasSubstr("defined twice"));
  // Names of the caller are not seen inside.
  const Msg g = function("G", {"a"}, {"r"}, {node("Add", {"a", "x"}, {"r"}, "sum")});
  EXPECT_THAT(refused(graph_with({call("G", {"x"}, {"y"}, "c")}, {"y"}), {g}),
              HasSubstr("node 'sum' (Add) reads 'x'"));
  EXPECT_THAT(
      refused(graph_with({node("Neg", {"x"}, {"y"}, "n").sub(5, attr_ref("a", 2, "b"))}, {"y"}),
              {}),
      HasSubstr("outside of any"));
  const Msg nothing = function("N", {"a"}, {"r"}, {});
  EXPECT_THAT(refused(graph_with({call("N", {"x"}, {"y"}, "c")}, {"y"}), {nothing}),
              HasSubstr("list of outputs of function 'N' reads 'r'"));
}

// f0 calls f1 calls f2 …, and f0 calls f1 ten times, f1 calls f2 ten times, ….
TEST(OnnxFunction, BombsAreRefused) {
  std::vector<Msg> chain;
  std::vector<Msg> tree;
  for (int i = 0; i < 100000; ++i) {
    const std::string next = "f" + std::to_string(i + 1);
    chain.push_back(
        function("f" + std::to_string(i), {"a"}, {"r"}, {call(next, {"a"}, {"r"}, "")}));
    if (i >= 12) continue;
    std::vector<Msg> calls;
    for (int k = 0; k < 10; ++k) calls.push_back(call(next, {"a"}, {"r" + std::to_string(k)}, ""));
    tree.push_back(function("f" + std::to_string(i), {"a"}, {"r0"}, calls));
  }
  const Msg graph = graph_with({call("f0", {"x"}, {"y"}, "")}, {"y"});
  EXPECT_THAT(refused(graph, chain), HasSubstr("nested more than 32 deep"));
  tree.push_back(function("f12", {"a"}, {"r"}, {node("Neg", {"a"}, {"r"})}));
  EXPECT_THAT(refusal_of(Code::kUnsupported, [&] { read(graph, tree); }),
              HasSubstr("far more memory"));
}

}  // namespace
}  // namespace kvern::import::onnx
