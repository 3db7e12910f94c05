// Whole graphs: what is wanted, what is refused, and that values die.
#include <fmt/format.h>

#include "tests/compile/eval/tensor_op.h"

namespace kvern::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const TensorGraph& graph, const std::map<std::string, Array>& inputs,
                    const TensorRunOptions& options = {}) {
  try {
    run_tensor_graph(graph, inputs, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TensorRunGraph, InputsThatAreMissingOrDoNotFitAreNamed) {
  const TensorGraph graph = ir::parse_tensor_graph(
      "input %x float[batch, 2]\ninput %n int64[]\n%y = Add(%x, %x)\noutput %y\n");
  EXPECT_THAT(refusal(graph, {{"x", f32({1, 2}, {1, 2})}}),
              HasSubstr("input 'n' is missing; the graph takes 'x' float[batch, 2], 'n' int64[]"));
  EXPECT_THAT(refusal(graph, {{"x", f32({1, 3}, {1, 2, 3})}, {"n", i64({}, {1})}}),
              HasSubstr("input 'x' must be float[batch, 2], got float[1, 3]"));
  EXPECT_THAT(refusal(graph, {{"x", i64({1, 2}, {1, 2})}, {"n", i64({}, {1})}}),
              HasSubstr("got int64[1, 2]"));
  EXPECT_THAT(
      refusal(graph, {{"x", f32({1, 2}, {1, 2})}, {"n", i64({}, {1})}, {"z", i64({}, {1})}}),
      HasSubstr("there is no input 'z'"));
}

TEST(TensorRunGraph, OthersThanOutputsAreGivenWhenAsked) {
  const TensorGraph graph = ir::parse_tensor_graph(
      "input %x float[2]\n%a = Add(%x, %x)\n%b = Mul(%a, %a)\n%y = Neg(%b)\noutput %y\n");
  TensorRunOptions options;
  options.also = {"a"};
  const auto out = run_tensor_graph(graph, {{"x", f32({2}, {1, 2})}}, options);
  EXPECT_THAT(values<float>(out.at("a")), ElementsAre(2, 4));
  EXPECT_THAT(values<float>(out.at("y")), ElementsAre(-4, -16));
  options.also = {"nothing"};
  EXPECT_THAT(refusal(graph, {{"x", f32({2}, {1, 2})}}, options), HasSubstr("no value 'nothing'"));
}

TEST(TensorRunGraph, ALongChainNeedsTheMemoryOfTwoValues) {
  std::string text = "input %v0 float[1024]\n";
  for (int i = 0; i < 100; ++i) {
    text += fmt::format("%v{} = Neg(%v{})\n", i + 1, i);
  }
  const TensorGraph graph = ir::parse_tensor_graph(text + "output %v100\n");
  TensorRunOptions options;
  options.max_bytes = 2 * 4096;
  EXPECT_EQ(refusal(graph, {{"v0", Array(ElementType::kFloat, {1024})}}, options), "");
  options.max_bytes = 4096;
  EXPECT_THAT(refusal(graph, {{"v0", Array(ElementType::kFloat, {1024})}}, options),
              HasSubstr("more than the limit of 4096"));
}

TEST(TensorRunGraph, AnInputMayBeAnOutput) {
  const TensorGraph graph = ir::parse_tensor_graph("input %x float[1]\noutput %x\n");
  EXPECT_THAT(values<float>(run_tensor_graph(graph, {{"x", f32({1}, {5})}}).at("x")),
              ElementsAre(5));
}

}  // namespace
}  // namespace kvern::eval
