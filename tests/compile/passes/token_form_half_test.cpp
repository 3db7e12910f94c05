// Rotations whose angles a file computes in half precision: cos and sin by position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/quantize/materialize.h"
#include "kvern/error.h"
#include "tests/compile/passes/token_form_case.h"

namespace kvern::passes {
namespace {

using ::testing::HasSubstr;

const ir::Weight& weight_of(const ir::Graph& graph, const std::string& name) {
  for (const ir::Weight& weight : graph.weights) {
    if (weight.name == name) return weight;
  }
  throw std::runtime_error("no weight " + name);
}

TEST(TokenFormHalf, TablesOfAnglesAreNotQuantised) {
  const TokenFormCase at = read_token_form_case("half_angles");
  TokenForm form = to_token_form(at.model, at.options);
  quantize::apply(form.graph, quantize::WeightChoice::kInt4);
  EXPECT_EQ(weight_of(form.graph, "embed.weight").storage.storage, DType::kI4);
  for (const char* name : {"rope.cos_table", "rope.sin_table"}) {
    EXPECT_EQ(weight_of(form.graph, name).storage, QuantFormat{}) << name;
  }
}

TEST(TokenFormHalf, TablesOfAnglesBoundTheContext) {
  TokenFormCase at = read_token_form_case("half_angles");
  at.options.context_length = 64;
  EXPECT_EQ(to_token_form(at.model, at.options).learned_positions, 64);
  at.options.context_length = 300000;
  try {
    to_token_form(at.model, at.options);
    FAIL() << "f16 ends at 65504";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no such number at position 65520"));
    EXPECT_THAT(error.what(), HasSubstr("--max-context-length 65520"));
  }
}

}  // namespace
}  // namespace kvern::passes
