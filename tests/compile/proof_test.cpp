// The proof of ONNX builds: exports pass it, and a conversion with one wrong number does not.
#include "compile/proof.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "base/json.h"
#include "compile/driver.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::compile {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string export_of(const std::string& name) {
  return std::string(KVERN_TEST_DATA "/golden/onnx/") + name;
}

// An export, converted and through the passes.
struct Converted {
  import::ImportedModel model;
  Conversion conversion;
  using Change = std::function<void(ir::TensorGraph&)>;
  explicit Converted(const std::string& name, const Change& change = {})
      : model(changed(import::load(export_of(name)), change)),
        conversion(*convert_tensor_form(model, {})) {
    passes::run_pipeline(model.graph);
  }
  static import::ImportedModel changed(import::ImportedModel model, const Change& change) {
    if (change) change(model.tensor->graph);
    return model;
  }
  Proof prove() const {
    ProofOptions options;
    options.conversion = conversion.options;
    options.num_parameters = model.num_parameters;
    if (model.config) options.original_context_length = model.config->original_context_length;
    return compile::prove(*model.tensor, conversion.form, model.graph, model.files, options);
  }
  // The weight's values in the graph itself, one of them changed.
  void perturb(const std::string& part, size_t element, float factor) {
    for (ir::Weight& weight : model.graph.weights) {
      if (weight.name.find(part) == std::string::npos) continue;
      std::vector<float> values = quantize::materialize_f32(model.graph, weight, model.files);
      values.at(element) = values[element] * factor + 0.25f;
      ir::RecipeNode literal;
      literal.op = ir::RecipeOp::kLiteral;
      literal.values.assign(values.begin(), values.end());
      weight.recipe.nodes = {literal};
      return;
    }
    FAIL() << "no weight named like " << part;
  }
};

// Of all attentions.
void set_window(Converted& converted, int64_t window) {
  for (ir::Node& node : converted.model.graph.nodes()) {
    if (node.op != &ir::ops::kKvAttention) continue;
    auto attrs = node.attrs.as<ir::KvAttentionAttrs>();
    attrs.mask = ir::MaskKind::kWindow;
    attrs.window = window;
    node.attrs = ir::Attrs::of(attrs);
  }
}

void fix_batch(ir::TensorGraph& graph) {
  for (const ir::TensorValueId id : graph.inputs) {
    ir::TensorDim& dim = graph.values[static_cast<size_t>(id)].dims.at(0);
    if (dim.value < 0) dim = {2, ""};
  }
}

ir::Array halved(const ir::Array& array) {
  ir::Array out(ir::ElementType::kFloat16, array.shape());
  const std::span<uint16_t> to = out.mutable_as<uint16_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = f32_to_f16(std::clamp(array.as<float>()[i], -65504.0f, 65504.0f));
  }
  return out;
}

// All that is f32 is f16 now, as convert_float_to_float16 makes it: the angles of rotations too.
void halve(ir::TensorGraph& graph) {
  const auto is_f32 = [](const ir::Array& a) { return a.type() == ir::ElementType::kFloat; };
  for (ir::TensorValue& value : graph.values) {
    if (value.type == ir::ElementType::kFloat) value.type = ir::ElementType::kFloat16;
  }
  for (auto& [id, array] : graph.constants) {
    if (is_f32(array)) array = halved(array);
  }
  for (ir::TensorNode& node : graph.nodes) {
    for (auto& [name, attr] : node.attrs) {
      if (auto* array = std::get_if<ir::Array>(&attr); array != nullptr && is_f32(*array)) {
        *array = halved(*array);
      }
    }
    if (node.op == "Cast" && node.i("to", 0) == 1) node.attrs["to"] = int64_t{10};
  }
}

// Caches go out as f32 and come in as f16 (optimum's Gemma 3).
void halve_inputs_alone(ir::TensorGraph& graph) {
  halve(graph);
  for (ir::TensorValueId& id : graph.outputs) {
    const std::string name = graph.name_of(id);
    if (!name.starts_with("present")) continue;
    const auto from = static_cast<size_t>(id);
    graph.values[from].name = name + ".f16";
    ir::TensorNode cast;
    cast.op = "Cast";
    cast.opset = 18;
    cast.inputs = {id};
    cast.attrs["to"] = int64_t{1};
    id = graph.add_value(name);
    graph.values[static_cast<size_t>(id)].type = ir::ElementType::kFloat;
    cast.outputs = {id};
    graph.nodes.push_back(std::move(cast));
  }
}

// The embedding has fewer rows than the head.
void crop_embedding(ir::TensorGraph& graph) {
  const ir::TensorValueId ids = graph.find("input_ids");
  for (ir::TensorNode& node : graph.nodes) {
    if (node.op != "Gather" || node.inputs.at(1) != ids) continue;
    const ir::Array& table = graph.constants.at(node.inputs[0]);
    const int64_t width = table.shape().at(1);
    const std::vector<float> all = table.to_f32();
    const ir::TensorValueId cropped = graph.add_value("cropped");
    graph.constants[cropped] = ir::Array::of<float>(ir::ElementType::kFloat, {16, width},
                                                    {all.data(), static_cast<size_t>(16 * width)});
    node.inputs[0] = cropped;
    return;
  }
  FAIL() << "no embedding";
}

passes::LengthChoice choice(std::vector<int64_t> same_at, std::vector<int64_t> other_at) {
  const int64_t decided_at = *std::max_element(same_at.begin(), same_at.end());
  return {"node 'Where'", decided_at, std::move(same_at), std::move(other_at)};
}

std::string problem_of(const Converted& converted) {
  try {
    converted.prove();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(Proof, ExportsOfManyFormsPass) {
  for (const char* name :
       {"llama_gqa__opt_past", "llama_mha__opt_nocache", "llama_gqa__dynstatic18", "mistral__ts17",
        "qwen2__old_merged", "gemma2__genai_fp32"}) {
    SCOPED_TRACE(name);
    const Proof proof = Converted(name).prove();
    EXPECT_EQ(proof.status, "passed");
    EXPECT_GE(proof.tokens, 20);
    EXPECT_LT(proof.max_rel_diff, 1e-4);
  }
}

TEST(Proof, GrowingCachesRunPromptsStepsAndAPaddedBatch) {
  const Proof proof = Converted("bloom__opt_past").prove();
  EXPECT_THAT(proof.runs, ::testing::Contains("5 tokens, then 1, 3"));
  EXPECT_THAT(proof.runs,
              ::testing::Contains("2 sequences, 6 tokens padded on the left by 0, 3, then 1"));
}

TEST(Proof, OneWrongElementOfAMatrixFails) {
  Converted converted("bloom__opt_past");
  std::string matrix;
  for (const ir::Weight& weight : converted.model.graph.weights) {
    if (weight.shape.size() == 2 && weight.shape[0] < 200) matrix = weight.name;
  }
  converted.perturb(matrix, 7, 2.0f);
  const std::string problem = problem_of(converted);
  EXPECT_THAT(problem, HasSubstr("does not compute what the file does"));
  EXPECT_THAT(problem, HasSubstr("in the file and"));
  EXPECT_THAT(problem, HasSubstr("--no-verify"));
}

TEST(Proof, AFileOfHalfPrecisionPassesAndOneWrongElementFails) {
  Converted converted("llama_gqa__opt_past", halve);
  EXPECT_THAT(converted.conversion.form.layers.at(0).rope, HasSubstr("angles in float16"));
  const Proof proof = converted.prove();
  EXPECT_EQ(proof.tolerance_of, "f16");
  EXPECT_LT(proof.max_rel_diff, 1e-2);
  EXPECT_GT(proof.max_rel_diff, 1e-5) << "the file rounds";
  for (const char* weight : {"layers.0.attn.o.weight", "rope.cos_table", "head.weight"}) {
    Converted other("llama_gqa__opt_past", halve);
    other.perturb(weight, 7, 2.0f);
    EXPECT_THAT(problem_of(other), HasSubstr("does not compute what the file does")) << weight;
  }
}

TEST(Proof, CachesThatGoOutAsF32ComeBackAsF16) {
  const Proof proof = Converted("llama_gqa__opt_past", halve_inputs_alone).prove();
  EXPECT_THAT(proof.runs, ::testing::Contains("5 tokens, then 1, 3"));
}

TEST(Proof, OneWrongElementOfAVectorFails) {
  Converted converted("bloom__opt_past");
  std::string vector;
  for (const ir::Weight& weight : converted.model.graph.weights) {
    if (weight.shape.size() == 1 && weight.shape[0] >= 16) vector = weight.name;
  }
  converted.perturb(vector, 3, 2.0f);
  EXPECT_THAT(problem_of(converted), HasSubstr("of the largest"));
}

TEST(Proof, AnotherScaleOfAttentionFails) {
  Converted converted("bloom__opt_past");
  for (ir::Node& node : converted.model.graph.nodes()) {
    if (node.op != &ir::ops::kKvAttention) continue;
    auto attrs = node.attrs.as<ir::KvAttentionAttrs>();
    attrs.scale *= 1.25f;
    node.attrs = ir::Attrs::of(attrs);
    break;
  }
  EXPECT_THAT(problem_of(converted), HasSubstr("does not compute what the file does"));
}

TEST(Proof, AFixedBatchIsComparedLikeOneSequence) {
  Converted converted("llama_gqa__opt_past", fix_batch);
  const Proof proof = converted.prove();
  EXPECT_EQ(proof.status, "passed");
  EXPECT_THAT(proof.runs, ::testing::Contains("2 sequences, 5 tokens, then 1, 3"));
  EXPECT_GE(proof.tokens, 20);
}

TEST(Proof, AFixedBatchFailsToo) {
  Converted converted("llama_gqa__opt_past", fix_batch);
  set_window(converted, 2);
  EXPECT_THAT(problem_of(converted), HasSubstr("2 sequences, 5 tokens, then 1, 3, token"));
}

TEST(Proof, WhatOnlyShowsFarFromTheBeginningFails) {
  for (const char* name : {"llama_gqa__opt_past", "llama_mha__opt_nocache"}) {
    SCOPED_TRACE(name);
    Converted converted(name);
    set_window(converted, 100);
    EXPECT_THAT(problem_of(converted), HasSubstr("does not compute what the file does"));
  }
}

TEST(Proof, OneRunIsAsLongAsTheContextAllows) {
  Converted converted("llama_gqa__opt_past");
  EXPECT_THAT(converted.prove().runs, ::testing::Contains("124 tokens, then 1, 3"));
  converted.conversion.options.context_length = 40;
  EXPECT_THAT(converted.prove().runs, ::testing::Contains("36 tokens, then 1, 3"));
}

// Where activations are rounded a token may be apart; not all from some position on.
TEST(Proof, QuantisedActivationsExcuseNoWindow) {
  Converted converted("llama_gqa__opt_past");
  ir::TensorGraph& graph = converted.model.tensor->graph;
  ir::TensorNode rounding;
  rounding.op = "QuantizeLinear";
  rounding.opset = 18;
  for (const char* name : {"one", "scale"}) {
    rounding.inputs.push_back(graph.add_value(name));
    graph.constants[rounding.inputs.back()] = ir::Array::scalar_f32(1);
  }
  rounding.outputs = {graph.add_value("unread")};
  graph.nodes.push_back(rounding);
  EXPECT_EQ(converted.prove().tolerance_of, "quantised activations");
  set_window(converted, 64);
  EXPECT_THAT(problem_of(converted), HasSubstr("is allowed in quantised activations"));
}

TEST(Proof, LargeModelsRunFewerTokensButFarAsLongAsTheyCan) {
  Converted converted("llama_gqa__opt_past");
  converted.model.num_parameters = 500'000'000;
  EXPECT_THAT(
      converted.prove().runs,
      ::testing::ElementsAre("5 tokens, then 1, 3", "3 tokens behind 124 random rows, then 1",
                             "85 tokens, then 1, 3"));
  converted.model.num_parameters = 1'500'000'000;
  EXPECT_THAT(
      converted.prove().runs,
      ::testing::ElementsAre("4 tokens, then 1", "3 tokens behind 124 random rows, then 1"));
  converted.model.num_parameters = 8'000'000'000;
  EXPECT_THAT(converted.prove().runs, ::testing::ElementsAre("3 tokens, then 1"));
}

// Behind caches of random rows a few tokens show what happens there.
TEST(Proof, WhatOnlyShowsBehindManyRowsFails) {
  Converted converted("llama_gqa__opt_past");
  converted.model.num_parameters = 1'500'000'000;  // its other run has 5 tokens
  set_window(converted, 100);
  EXPECT_THAT(problem_of(converted),
              HasSubstr("of 3 tokens behind 124 random rows, then 1, token"));
}

TEST(Proof, CachesOfAllLayoutsAreFilled) {
  for (const char* name :
       {"bloom__opt_past", "falcon__opt_past", "gpt2__old_merged", "gpt_neox__hfx_decode",
        "llama_gqa__dynstatic18", "llama_gqa__genai_fp32", "llama_gqa__native24_scatter",
        "mistral__dyn24", "phi3__opt_past", "qwen3__hfx_static", "stablelm__dyn18"}) {
    SCOPED_TRACE(name);
    const Proof proof = Converted(name).prove();
    EXPECT_THAT(proof.runs, ::testing::Contains(HasSubstr("random rows")));
    EXPECT_LT(proof.max_rel_diff, 1e-4);
  }
}

TEST(Proof, AWindowThatIsNotReachedIsSaid) {
  Converted converted("mistral__ts17");
  for (passes::TokenSlot& slot : converted.conversion.form.slots) slot.window = 1000;
  EXPECT_THAT(converted.prove().notes,
              ::testing::Contains("no run reached beyond the window of 1000 tokens"));
}

TEST(Proof, TablesOfLongContextsAreComparedWhereTheFileChoosesThem) {
  Converted converted("llama_gqa__opt_past");
  converted.conversion.form.choices = {choice({64, 40}, {7, 12})};
  const Proof proof = converted.prove();
  EXPECT_FALSE(proof.lengths.empty());
  EXPECT_THAT(proof.lengths, ::testing::Each(::testing::Ge(13)));  // config.json: above 16
  EXPECT_THAT(proof.lengths, ::testing::Contains(17));
  converted.model.config->original_context_length = 4;  // no length that was walked agrees
  EXPECT_THAT(converted.prove().lengths, ::testing::Each(::testing::Ge(40)));
}

TEST(Proof, TablesOfShortContextsAreComparedBelowTheSwitch) {
  Converted converted("llama_gqa__opt_past");
  converted.conversion.form.choices = {choice({7, 12}, {40})};
  converted.model.config.reset();
  const Proof proof = converted.prove();
  EXPECT_THAT(proof.runs, ::testing::Contains("5 tokens, then 1, 3"));
  EXPECT_THAT(proof.runs, ::testing::Contains("8 tokens, then 1, 3"));
  EXPECT_THAT(proof.lengths, ::testing::Each(::testing::Le(12)));
}

TEST(Proof, TablesThatNoRunReachesAreRefused) {
  Converted converted("llama_gqa__opt_past");
  converted.conversion.form.choices = {choice({8192, 4103}, {7, 4096})};
  converted.conversion.options.context_length = 8192;
  const std::string problem = problem_of(converted);
  EXPECT_THAT(problem, HasSubstr("node 'Where' chooses tables by length, and the plan holds those "
                                 "of 8192 tokens"));
  EXPECT_THAT(problem, HasSubstr("--max-context-length (4096 or less)"));
  EXPECT_THAT(problem, HasSubstr("--no-verify"));
  converted.conversion.form.choices = {choice({7, 100}, {20})};  // to and fro
  EXPECT_THAT(problem_of(converted), HasSubstr("cannot be proved"));
}

TEST(Proof, StepsOfOneTokenAreAField) {
  Converted converted("llama_gqa__opt_past");
  converted.conversion.form.one_token_steps = true;
  EXPECT_THAT(converted.prove().runs, ::testing::Contains("5 tokens, then 1, 1"));
}

// No engine could read such an answer back.
TEST(Proof, AnEmbeddingSmallerThanTheHeadComesToNoProof) {
  try {
    Converted("llama_gqa__opt_past", crop_embedding);
    FAIL() << "it is converted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the embedding has only 16"));
  }
}

class ProofBuild : public ::testing::Test {
 protected:
  ProofBuild() {
    request_.model_path = export_of("bloom__opt_past");
    request_.plan_path =
        (fs::temp_directory_path() / fmt::format("kvern_proof_{}.plan", ::getpid())).string();
    request_.max_context_length = 64;
  }
  ~ProofBuild() override { fs::remove(request_.plan_path); }
  Json onnx_of(const BuildResult& result) {
    return parse_json(result.report, "report", Code::kInvalidModel).at("onnx");
  }
  BuildRequest request_;
};

TEST_F(ProofBuild, TheReportHoldsLayersStatesAndProof) {
  const Json onnx = onnx_of(build(request_));
  EXPECT_EQ(onnx.at("proof").at("status"), "passed");
  EXPECT_TRUE(onnx.at("proof").contains("seconds"));
  ASSERT_FALSE(onnx.at("layers").empty());
  EXPECT_EQ(onnx.at("layers")[0].at("mask"), "alibi");
  EXPECT_EQ(onnx.at("layers")[0].at("norm"), "layer_norm");
  EXPECT_EQ(onnx.at("slots")[0].at("states")[0].at("past"), "past_key_values.0.key");
  EXPECT_EQ(onnx.at("slots")[0].at("states")[0].at("present"), "present.0.key");
}

TEST_F(ProofBuild, SkippedIsSaidAndIsAnotherBuild) {
  const std::string proved = build_key(request_);
  request_.prove = false;
  EXPECT_NE(build_key(request_), proved);
  const Json onnx = onnx_of(build(request_));
  EXPECT_EQ(onnx.at("proof").at("status"), "skipped");
}

TEST_F(ProofBuild, APlanHoldsNoTime) {
  const auto bytes = [&] {
    build(request_);
    return read_text_file(request_.plan_path, 1 << 24);
  };
  EXPECT_EQ(bytes(), bytes());
}

}  // namespace
}  // namespace kvern::compile
