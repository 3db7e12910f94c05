// Real exports (tests/golden/onnx), each changed in one place that makes it something else than a
// causal decoder with a cache: refused with the node or input at fault.
#include <gmock/gmock.h>

#include <algorithm>

#include "compile/import/onnx/reader.h"
#include "compile/passes/token_form/token_form.h"
#include "kvern/error.h"

namespace kvern::passes {
namespace {

using ir::TensorGraph;
using ir::TensorNode;
using ir::TensorValueId;
using ::testing::HasSubstr;

const std::vector<std::string> kExports = {"llama_gqa__opt_past", "gemma2__dyn18", "phi3__opt_past",
                                           "smollm3__dyn18", "mistral__ts17"};

class TokenFormExport : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    read_ = import::onnx::read_onnx(
        import::onnx::find_onnx(KVERN_TEST_DATA "/golden/onnx/" + GetParam()));
  }
  TensorGraph& graph() { return read_.model.graph; }
  TensorNode* producer(TensorValueId id) {
    for (TensorNode& node : graph().nodes) {
      if (std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end()) {
        return &node;
      }
    }
    return nullptr;
  }
  size_t index_of(const TensorNode* node) {
    return static_cast<size_t>(node - graph().nodes.data());
  }
  // A node before node `at`; its new output.
  TensorValueId insert(size_t at, std::string op, std::vector<TensorValueId> inputs,
                       std::string name) {
    TensorNode node;
    node.op = std::move(op);
    node.opset = 17;
    node.name = name;
    node.inputs = std::move(inputs);
    const TensorValueId made = graph().add_value(name + "_made");
    node.outputs = {made};
    graph().nodes.insert(graph().nodes.begin() + static_cast<std::ptrdiff_t>(at), std::move(node));
    return made;
  }
  TensorValueId constant(std::string name, ir::Array array) {
    const TensorValueId made = graph().add_value(std::move(name));
    graph().constants[made] = std::move(array);
    return made;
  }
  TensorValueId output(std::string_view name) {
    for (const TensorValueId id : graph().outputs) {
      if (graph().name_of(id).find(name) != std::string::npos) return id;
    }
    ADD_FAILURE() << "no output " << name;
    return 0;
  }
  std::string refusal() {
    TokenFormOptions options;
    options.context_length = 128;
    options.config["sliding_window"] = 16;
    try {
      ir::verify(graph());
      to_token_form(read_.model, options);
    } catch (const InternalError& error) {
      ADD_FAILURE() << "our own bug: " << error.what();
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "it was converted";
    return "";
  }

  import::onnx::OnnxModel read_;
};

TEST_P(TokenFormExport, IsConvertedAsItIs) {
  TokenFormOptions options;
  options.context_length = 128;
  const TokenForm form = to_token_form(read_.model, options);
  EXPECT_GE(form.layers.size(), 2u);
  EXPECT_TRUE(form.had_cache);
  EXPECT_EQ(form.vocabulary_size, 384);
}

TEST_P(TokenFormExport, PresentsOfTwoLayersSwapped) {
  std::string& a = graph().values[static_cast<size_t>(output("0.key"))].name;
  std::string& b = graph().values[static_cast<size_t>(output("1.key"))].name;
  std::swap(a, b);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("swap"), HasSubstr("0.key"), HasSubstr("1.key")));
}

TEST_P(TokenFormExport, KeysAndValuesSwapped) {
  std::string& a = graph().values[static_cast<size_t>(output("0.key"))].name;
  std::string& b = graph().values[static_cast<size_t>(output("0.value"))].name;
  std::swap(a, b);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("swap"), HasSubstr("0.key"), HasSubstr("0.value")));
}

TEST_P(TokenFormExport, MaskGone) {
  int num_gone = 0;
  for (TensorNode& node : graph().nodes) {
    if (node.op != "Softmax") continue;
    const TensorNode* add = producer(node.inputs[0]);
    ASSERT_TRUE(add != nullptr && add->op == "Add") << node.who();
    node.inputs[0] = add->inputs[0];
    ++num_gone;
  }
  EXPECT_GE(num_gone, 2);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("MatMul"), HasSubstr("a later one")));
}

TEST_P(TokenFormExport, KeysCachedTwice) {
  TensorNode* concat = producer(output("0.key"));
  while (concat != nullptr && concat->op != "Concat") concat = producer(concat->inputs[0]);
  ASSERT_NE(concat, nullptr);
  concat->inputs.push_back(concat->inputs.back());
  // The scores are wider now than their mask.
  EXPECT_THAT(refusal(), HasSubstr("node '"));
}

TEST_P(TokenFormExport, TokensPooledBeforeTheHead) {
  const size_t at = [&] {  // the last product: the head
    for (size_t i = graph().nodes.size(); i-- > 0;) {
      if (graph().nodes[i].op == "MatMul") return i;
    }
    return size_t{0};
  }();
  const TensorValueId x = graph().nodes[at].inputs[0];
  const TensorValueId mean = insert(at, "ReduceMean", {x}, "pool");
  graph().nodes[at].attrs["axes"] = std::vector<int64_t>{1};
  const TensorValueId joined = insert(at + 1, "Add", {x, mean}, "join");
  graph().nodes[at + 2].inputs[0] = joined;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'pool'"), HasSubstr("ReduceMean")));
}

TEST_P(TokenFormExport, LengthFixed) {
  ir::TensorValue& ids = graph().values[static_cast<size_t>(graph().find("input_ids"))];
  ids.dims = {{.value = 1, .name = {}}, {.value = 8, .name = {}}};
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'input_ids'"), HasSubstr("[1, 8]")));
}

TEST_P(TokenFormExport, MaskOfAnUnknownInput) {
  const TensorValueId mask = graph().find("attention_mask");
  if (mask == ir::kNoValue) GTEST_SKIP() << "without an attention_mask";
  graph().values[static_cast<size_t>(mask)].name = "visible";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'visible'"), HasSubstr("none that Kvern knows")));
}

// position_ids are 0, 1, … in every chunk, whatever the cache holds.
TEST_P(TokenFormExport, PositionsFrozen) {
  const TensorValueId positions = graph().find("position_ids");
  if (positions == ir::kNoValue) GTEST_SKIP() << "positions are computed inside";
  auto& inputs = graph().inputs;
  inputs.erase(std::find(inputs.begin(), inputs.end(), positions));
  const TensorValueId zero = constant("frozen_zero", ir::Array::scalar_i64(0));
  const TensorValueId one = constant("frozen_one", ir::Array::scalar_i64(1));
  const TensorValueId first = constant("frozen_axis", ir::Array::vector_i64({0}));
  const TensorValueId shape = insert(0, "Shape", {graph().find("input_ids")}, "frozen_shape");
  const TensorValueId length = insert(1, "Gather", {shape, one}, "frozen_length");
  const TensorValueId range = insert(2, "Range", {zero, length, one}, "frozen_range");
  insert(3, "Unsqueeze", {range, first}, "frozen_positions");
  graph().nodes[3].outputs = {positions};
  EXPECT_THAT(refusal(), AllOf(HasSubstr("node '"), HasSubstr("depend on the position")));
}

INSTANTIATE_TEST_SUITE_P(Changed, TokenFormExport, ::testing::ValuesIn(kExports),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvern::passes
