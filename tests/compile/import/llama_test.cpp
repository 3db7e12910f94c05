// Llama from GGUF: the graph that comes out, and files that are no Llama that Kvern knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/import/gguf/import.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"
#include "tests/compile/import/gguf_builder.h"

namespace kvern::import {
namespace {

using gguf::GgufBuilder;
using gguf::one_layer_llama;
using testing::HasSubstr;

ImportedModel import_built(const GgufBuilder& builder) {
  const std::string bytes = builder.bytes();
  return gguf::import_bytes(gguf::as_bytes(bytes), "dir/x.gguf", {});
}

std::string outcome(const GgufBuilder& builder) {
  try {
    import_built(builder);
  } catch (const Error& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "ok";
}

std::vector<std::string> node_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == &ir::ops::kWeight || node.outputs.empty()) continue;
    names.push_back(std::string(node.op->name) + " " + graph.value(node.outputs[0]).name);
  }
  return names;
}

TEST(Llama, GraphReadsLikeThePaper) {
  const ImportedModel model = import_built(one_layer_llama());
  ir::verify(model.graph);
  EXPECT_THAT(
      node_names(model.graph),
      testing::ElementsAre(
          "input ids", "input positions", "rope_frequencies rope.frequencies",
          "rope_angles rope.angles.0", "embedding embed", "rms_norm layers.0.attn_norm",
          "linear layers.0.attn.q", "linear layers.0.attn.k", "linear layers.0.attn.v",
          "rope layers.0.attn.q_rope", "rope layers.0.attn.k_rope", "kv_append layers.0.attn.kv",
          "kv_attention layers.0.attn.y", "linear layers.0.attn.o", "add layers.0.attn_add",
          "rms_norm layers.0.mlp_norm", "linear layers.0.mlp.gate", "linear layers.0.mlp.up",
          "silu layers.0.mlp.silu", "mul layers.0.mlp.gated", "linear layers.0.mlp.down",
          "add layers.0.mlp_add", "rms_norm norm", "linear logits"));
  EXPECT_EQ(model.graph.weights.size(), 11u);  // the head is the embedding table
  EXPECT_EQ(model.graph.files, std::vector<std::string>{"x.gguf"});
  EXPECT_EQ(model.name, "x");
  EXPECT_EQ(model.vocabulary_size, 6);
  EXPECT_EQ(model.num_parameters, 6 * 8 + 3 * 8 + 2 * 64 + 2 * 32 + 3 * 128);
  const ir::Weight& q = model.graph.weights[model.graph.weight_index("layers.0.attn.q.weight")];
  ASSERT_EQ(q.recipe.nodes.size(), 2u);
  EXPECT_EQ(q.recipe.nodes[1].op, ir::RecipeOp::kUnpermute);
  EXPECT_EQ(q.recipe.nodes[1].heads, 2);
  EXPECT_EQ(model.tensors[3].name, "blk.0.attn_q.weight");
  EXPECT_EQ(model.tensors[3].note, "rows of 2 heads unpermuted");
  EXPECT_EQ(model.tensors[5].note, "");
  const ir::Weight& v = model.graph.weights[model.graph.weight_index("layers.0.attn.v.weight")];
  EXPECT_EQ(v.recipe.nodes.size(), 1u);
  const std::string text = ir::print(model.graph);
  EXPECT_EQ(ir::print(ir::parse(text)), text);
}

TEST(Llama, UntiedHeadAndBiases) {
  GgufBuilder builder = one_layer_llama();
  builder.f32("output.weight", {8, 6});
  builder.f32("blk.0.attn_q.bias", {8});
  builder.f32("blk.0.ffn_down.bias", {8});
  const ImportedModel model = import_built(builder);
  ir::verify(model.graph);
  EXPECT_EQ(model.graph.weights.size(), 14u);
  const ir::Weight& bias = model.graph.weights[model.graph.weight_index("layers.0.attn.q.bias")];
  EXPECT_EQ(bias.recipe.nodes.back().op, ir::RecipeOp::kUnpermute);
}

TEST(Llama, MissingSurplusAndMisshapenTensorsAreNamed) {
  GgufBuilder builder = one_layer_llama();
  builder.erase_tensor("blk.0.ffn_up.weight");
  builder.erase_tensor("output_norm.weight");
  EXPECT_THAT(outcome(builder),
              HasSubstr("2 tensors are missing: output_norm.weight, blk.0.ffn_up.weight"));
  builder = one_layer_llama();
  builder.f32("blk.0.attn_q_norm.weight", {4});
  EXPECT_THAT(outcome(builder), HasSubstr("blk.0.attn_q_norm.weight"));
  builder = one_layer_llama();
  builder.f32("rope_freqs.weight", {3});
  EXPECT_THAT(outcome(builder), HasSubstr("'rope_freqs.weight' is F32 [3]; F32 [2] is wanted"));
  builder = one_layer_llama();
  builder.count("llama.feed_forward_length", 24);
  EXPECT_THAT(outcome(builder), HasSubstr("has shape [16, 8], but the model's configuration asks "
                                          "for [24, 8]"));
  builder = one_layer_llama();
  builder.count("llama.block_count", 4000000000u);
  EXPECT_THAT(outcome(builder), HasSubstr("block_count"));
  builder.count("llama.block_count", 1 << 26);
  EXPECT_THAT(outcome(builder), HasSubstr("block_count' is 67108864; 1 to 1024 are possible"));
  builder.count("llama.block_count", 1024);
  EXPECT_THAT(outcome(builder), HasSubstr("tensors are missing: blk.1.attn_norm.weight"));
}

TEST(Llama, WhatChangesTheResultIsRefusedByName) {
  GgufBuilder builder = one_layer_llama();
  builder.string("llama.rope.scaling.type", "longrope");
  EXPECT_THAT(outcome(builder), HasSubstr("unsupported"));
  EXPECT_THAT(outcome(builder), HasSubstr("longrope"));
  builder.string("llama.rope.scaling.type", "none");
  EXPECT_EQ(outcome(builder), "ok");
  builder.count("llama.attention.sliding_window", 4096);
  EXPECT_THAT(outcome(builder), HasSubstr("llama.attention.sliding_window"));
  builder = one_layer_llama();
  builder.count("llama.expert_count", 8);
  EXPECT_THAT(outcome(builder), HasSubstr("8 experts"));
  builder = one_layer_llama();
  builder.count("llama.rope.dimension_count", 2);
  EXPECT_THAT(outcome(builder), HasSubstr("rotary positions over 2 of 4"));
  builder = one_layer_llama();
  builder.string("general.architecture", "mamba");
  EXPECT_THAT(outcome(builder), HasSubstr("architecture 'mamba' is not supported; known: llama"));
}

TEST(Llama, ScalingsOfTheRopeReachTheGraph) {
  const auto graph_of = [](const GgufBuilder& builder) {
    const std::string text = ir::print(import_built(builder).graph);
    return text.substr(text.find("  weight"));  // sources lie elsewhere in other files
  };
  const std::string plain = graph_of(one_layer_llama());
  GgufBuilder builder = one_layer_llama();
  builder.real("llama.rope.scale_linear", 2);
  const std::string linear = graph_of(builder);
  EXPECT_NE(linear, plain);
  builder = one_layer_llama();
  builder.string("llama.rope.scaling.type", "linear");
  builder.real("llama.rope.scaling.factor", 2);
  EXPECT_EQ(graph_of(builder), linear);
  builder.string("llama.rope.scaling.type", "none");
  EXPECT_EQ(graph_of(builder), plain);
  builder.string("llama.rope.scaling.type", "yarn");
  const std::string yarn = graph_of(builder);
  EXPECT_NE(yarn, plain);
  EXPECT_NE(yarn, linear);
  builder = one_layer_llama();
  builder.f32("rope_freqs.weight", {2});  // 0.25 each
  EXPECT_THAT(graph_of(builder), HasSubstr("literal(0.25, 0.25)"));
}

TEST(Llama, HeadsThatDoNotFitAreRefused) {
  GgufBuilder builder = one_layer_llama();
  builder.count("llama.attention.head_count", 3);
  EXPECT_THAT(outcome(builder), HasSubstr("3 heads do not divide"));
  builder = one_layer_llama();
  builder.count("llama.attention.head_count_kv", 0);
  EXPECT_THAT(outcome(builder), HasSubstr("head_count_kv' is 0"));
  builder = one_layer_llama();
  builder.real("llama.attention.layer_norm_rms_epsilon", -1);
  EXPECT_THAT(outcome(builder), HasSubstr("positive number"));
}

TEST(GgufTokenizer, OtherKindsAndSplitsAreNamed) {
  GgufBuilder builder = one_layer_llama();
  builder.string("tokenizer.ggml.model", "rwkv");
  EXPECT_THAT(outcome(builder), HasSubstr("tokenizer: kind 'rwkv'"));
  builder = one_layer_llama();
  builder.string("tokenizer.ggml.pre", "default");
  EXPECT_THAT(outcome(builder), HasSubstr("'default'"));
  builder = one_layer_llama();
  builder.strings("tokenizer.ggml.tokens", {"1", "2", "3", "4", "5", "6", "7"});
  EXPECT_THAT(outcome(builder), HasSubstr("invalid_model"));
  builder = one_layer_llama();
  builder.count("tokenizer.ggml.eos_token_id", 4);
  EXPECT_THAT(outcome(builder), HasSubstr("eos_token_id"));
}

TEST(GgufTokenizer, StopIdsAndUnknownKeys) {
  GgufBuilder builder = one_layer_llama();
  builder.count("tokenizer.ggml.eot_token_id", 3);
  builder.count("tokenizer.ggml.eom_token_id", 3);
  builder.count("tokenizer.ggml.novelty", 1);
  const ImportedModel model = import_built(builder);
  EXPECT_EQ(model.stop_ids, (std::vector<int32_t>{0, 3}));
  EXPECT_THAT(model.warnings, testing::ElementsAre(HasSubstr("tokenizer.ggml.novelty")));
  EXPECT_EQ(model.text.token_types[0], text::TokenType::kControl);
}

TEST(Import, NamesFromTheFileCannotSteerATerminal) {
  GgufBuilder builder = one_layer_llama();
  builder.string("general.name", "a\x1b[31mb\n" + std::string(5000, 'x'));
  const std::string name = import_built(builder).name;
  EXPECT_TRUE(name.starts_with("a?[31mb?x"));
  EXPECT_EQ(name.size(), 200u);
}

TEST(Import, SourceHashFollowsTensorsOnly) {
  GgufBuilder builder = one_layer_llama();
  const std::string first = import_built(builder).source_hash;
  builder.string("general.name", "another");
  EXPECT_EQ(import_built(builder).source_hash, first);
  std::string bytes = builder.bytes();
  bytes[bytes.size() - 1] ^= 1;
  EXPECT_NE(gguf::import_bytes(gguf::as_bytes(bytes), "x.gguf", {}).source_hash, first);
}

TEST(GgufRope, YarnAndFrequencyFactorsExcludeEachOther) {
  GgufBuilder builder = one_layer_llama();
  builder.f32("rope_freqs.weight", {2});
  builder.string("llama.rope.scaling.type", "yarn");
  builder.real("llama.rope.scaling.factor", 4);
  EXPECT_THAT(outcome(builder),
              testing::AllOf(HasSubstr("unsupported"), HasSubstr("rope_freqs.weight")));
}

TEST(GgufRope, Phi3TakesItsShortFactorsUpToTheOriginalLength) {
  GgufBuilder builder = one_layer_llama();
  for (GgufBuilder::Entry& entry : builder.entries) {
    if (entry.key.starts_with("llama.")) entry.key = "phi3." + entry.key.substr(6);
  }
  builder.string("general.architecture", "phi3");
  for (const char* name : {"q", "k", "v"}) {
    builder.erase_tensor(std::string("blk.0.attn_") + name + ".weight");
  }
  for (const char* name : {"gate", "up"}) {
    builder.erase_tensor(std::string("blk.0.ffn_") + name + ".weight");
  }
  builder.f32("blk.0.attn_qkv.weight", {8, 16});
  builder.f32("blk.0.ffn_up.weight", {8, 32});
  builder.f32("rope_factors_short.weight", {2});
  builder.f32("rope_factors_long.weight", {2});
  builder.real("phi3.rope.scaling.attn_factor", 1.25f);
  builder.count("phi3.rope.scaling.original_context_length", 64);
  const ImportedModel model = import_built(builder);
  EXPECT_EQ(model.max_context_length, 64);
  EXPECT_THAT(ir::print(model.graph),
              testing::AllOf(testing::HasSubstr("literal(0.25, 0.25)"),
                             testing::HasSubstr("rope.cos_scaled"), testing::HasSubstr("1.25")));
}

}  // namespace
}  // namespace kvern::import
