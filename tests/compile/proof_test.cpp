// The proof of ONNX builds: exports pass it, and a conversion with one wrong number does not.
#include "compile/proof.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "compile/driver.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

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
  explicit Converted(const std::string& name)
      : model(import::load(export_of(name))), conversion(*convert_tensor_form(model, {})) {
    passes::run_pipeline(model.graph);
  }
  Proof prove() const {
    ProofOptions options;
    options.conversion = conversion.options;
    options.num_parameters = model.num_parameters;
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
