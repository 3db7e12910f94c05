// Small files that nest as deep as they have nodes: functions of functions, a weight moved to and
// fro. They cost what their nodes cost.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/ir/ops.h"
#include "tests/compile/passes/token_form_case.h"

namespace kvern::passes {
namespace {

using ir::TensorGraph;
using ir::TensorNode;
using ir::TensorValueId;

class TokenFormDepth : public ::testing::Test {
 protected:
  TokenFormCase at_ = read_token_form_case("gated_mlp");

  TensorGraph& graph() { return at_.model.graph; }
  size_t reader_of(std::string_view name) {
    const TensorValueId id = graph().find(name);
    const auto reads = [&](const TensorNode& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end();
    };
    const auto& nodes = graph().nodes;
    return static_cast<size_t>(std::find_if(nodes.begin(), nodes.end(), reads) - nodes.begin());
  }
  static TensorNode node_of(std::string op, std::vector<TensorValueId> inputs, TensorValueId made) {
    TensorNode node;
    node.op = std::move(op);
    node.opset = 18;
    node.inputs = std::move(inputs);
    node.outputs = {made};
    return node;
  }
  // `chain` in place of what the first reader of `name` reads: nodes from it on, in order.
  template <class Chain>
  void put_before_reader(std::string_view name, int count, Chain chain) {
    const size_t reader = reader_of(name);
    const TensorValueId read = graph().find(name);  // `name` may be one of the graph's, which moves
    TensorValueId last = read;
    std::vector<TensorNode> made;
    for (int i = 0; i < count; ++i) last = chain(last, made);
    std::replace(graph().nodes[reader].inputs.begin(), graph().nodes[reader].inputs.end(), read,
                 last);
    graph().nodes.insert(graph().nodes.begin() + static_cast<std::ptrdiff_t>(reader), made.begin(),
                         made.end());
  }
  TensorValueId next() { return graph().add_value("made" + std::to_string(graph().values.size())); }

  size_t num_maps() const {
    const TokenForm form = to_token_form(at_.model, at_.options);
    ir::verify(form.graph);
    if (graph_is_short()) expect_same_logits(at_, form);
    const auto& nodes = form.graph.nodes();
    return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [](const ir::Node& node) {
      return node.op == &ir::ops::kMap;
    }));
  }
  bool graph_is_short() const { return at_.model.graph.nodes.size() < 2000; }
};

TEST_F(TokenFormDepth, ManyFunctionsAreWrittenInParts) {
  put_before_reader("down", 1000, [&](TensorValueId x, std::vector<TensorNode>& made) {
    made.push_back(node_of("Tanh", {x}, next()));
    return made.back().outputs[0];
  });
  EXPECT_GE(num_maps(), 1000u / 64);
}

TEST_F(TokenFormDepth, SumsOfNumbersAreWrittenInParts) {
  const TensorValueId number = next();
  graph().constants[number] = ir::Array::scalar_f32(0.25f);
  put_before_reader("down", 1000, [&](TensorValueId x, std::vector<TensorNode>& made) {
    made.push_back(node_of("Add", {x, number}, next()));
    return made.back().outputs[0];
  });
  EXPECT_LE(num_maps(), 1000u / 16);
}

// Read twice in each step: as a tree it doubles thirty times.
TEST_F(TokenFormDepth, FunctionsThatDoubleAreWrittenInParts) {
  put_before_reader("down", 30, [&](TensorValueId x, std::vector<TensorNode>& made) {
    made.push_back(node_of("Tanh", {x}, next()));
    made.push_back(node_of("Mul", {x, made.back().outputs[0]}, next()));
    return made.back().outputs[0];
  });
  EXPECT_GE(num_maps(), 1u);
}

TEST_F(TokenFormDepth, WeightsMovedToAndFro) {
  const TensorValueId wide = next(), narrow = next();
  graph().constants[wide] = ir::Array(ir::ElementType::kFloat, {8, 640});
  graph().constants[narrow] = ir::Array(ir::ElementType::kFloat, {640, 8});
  const TensorValueId all = next(), back = next();
  put_before_reader("down", 1, [&](TensorValueId x, std::vector<TensorNode>& made) {
    made.push_back(node_of("MatMul", {x, wide}, all));
    made.push_back(node_of("MatMul", {all, narrow}, back));
    return back;
  });
  put_before_reader(graph().name_of(wide), 20000,
                    [&](TensorValueId x, std::vector<TensorNode>& made) {
                      made.push_back(node_of("Transpose", {x}, next()));
                      made.back().attrs["perm"] = std::vector<int64_t>{1, 0};
                      return made.back().outputs[0];
                    });
  EXPECT_EQ(num_maps(), 0u);
}

}  // namespace
}  // namespace kvern::passes
