// config.json: what is understood, in both of transformers' spellings, and that nothing else
// passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/import/families/family.h"
#include "compile/import/hf/config.h"
#include "compile/import/hf/generation.h"
#include "kvern/error.h"
#include "tests/compile/import/hf_builder.h"

namespace kvern::import::hf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string graph_of(const Json& config, const SafetensorsBuilder& tensors = llama_tensors()) {
  return ir::print(import_config(config.dump(), weights_of(tensors)).graph);
}

Json changed(const char* field, const Json& value) {
  Json config = llama_config();
  config[field] = value;
  return config;
}

TEST(HfConfig, AModelComesOutWithItsSizes) {
  const ImportedModel model = import_config(llama_config().dump(), weights_of(llama_tensors()));
  ir::verify(model.graph);
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(model.vocabulary_size, 6);
  EXPECT_EQ(model.num_parameters, 6 * 8 + 3 * 8 + 2 * 64 + 2 * 32 + 3 * 128);
  EXPECT_EQ(model.stop_ids, std::vector<int32_t>{2});
  EXPECT_EQ(model.slots.size(), 1u);
  EXPECT_EQ(model.tensors.size(), 11u);
}

TEST(HfConfig, WhatIsNotUnderstoodIsNamed) {
  EXPECT_EQ(outcome_of(llama_config()), "ok");
  EXPECT_THAT(outcome_of(changed("novelty", 3)),
              AllOf(HasSubstr("unsupported"), HasSubstr("novelty")));
  EXPECT_EQ(outcome_of(changed("novelty", nullptr)), "ok");
  EXPECT_THAT(outcome_of(changed("quantization_config", {{"bits", 4}})),
              HasSubstr("quantization_config"));
  Json config = llama_config();
  config["rope_parameters"]["novelty"] = 1;
  EXPECT_THAT(outcome_of(config), HasSubstr("rope_parameters.novelty"));
  for (const char* harmless : {"initializer_range", "torch_dtype", "use_cache", "pretraining_tp"}) {
    EXPECT_EQ(outcome_of(changed(harmless, 1)), "ok") << harmless;
  }
}

TEST(HfConfig, UnknownModelsListTheKnownOnes) {
  for (const Family& family : all_families()) {
    EXPECT_THAT(outcome_of(changed("model_type", "mamba")),
                AllOf(HasSubstr("'mamba'"), HasSubstr(family.hf_model_type)));
  }
  EXPECT_THAT(outcome_of(changed("model_type", nullptr)), HasSubstr("model_type"));
  EXPECT_THAT(outcome_of(changed("model_type", 7)), HasSubstr("'model_type' is no string"));
  EXPECT_THAT(outcome_of(changed("architectures", {"LlamaForSequenceClassification"})),
              HasSubstr("LlamaForSequenceClassification"));
}

TEST(HfConfig, OldAndNewRopeFieldsMeanTheSame) {
  Json old_config = llama_config();
  old_config.erase("rope_parameters");
  EXPECT_EQ(graph_of(old_config), graph_of(llama_config()));
  old_config["rope_theta"] = 5e5;
  Json new_config = changed("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}});
  EXPECT_EQ(graph_of(old_config), graph_of(new_config));
  EXPECT_NE(graph_of(old_config), graph_of(llama_config()));

  const Json llama3 = {{"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  old_config["rope_scaling"] = llama3;
  old_config["rope_scaling"]["rope_type"] = "llama3";
  new_config["rope_parameters"].update(llama3);
  new_config["rope_parameters"]["rope_type"] = "llama3";
  EXPECT_EQ(graph_of(old_config), graph_of(new_config));
  old_config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  new_config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
  EXPECT_EQ(graph_of(old_config), graph_of(new_config));
  old_config["rope_scaling"] = nullptr;
  EXPECT_NE(graph_of(old_config), graph_of(new_config));
}

TEST(HfConfig, RopesThatAreNotDoneAreNamed) {
  const auto with = [](const Json& rope) { return outcome_of(changed("rope_parameters", rope)); };
  EXPECT_THAT(with({{"rope_type", "spiral"}}),
              AllOf(HasSubstr("unsupported"), HasSubstr("spiral"), HasSubstr("llama3")));
  EXPECT_THAT(with({{"rope_type", "llama3"}}), HasSubstr("'rope_parameters.factor' is missing"));
  EXPECT_THAT(with({{"rope_type", "linear"}, {"factor", 0}}), HasSubstr("above zero"));
  EXPECT_THAT(with({{"rope_type", "linear"}, {"factor", "8"}}), HasSubstr("no finite number"));
  EXPECT_THAT(with({{"partial_rotary_factor", 0.5}}), HasSubstr("whole heads"));
  EXPECT_THAT(with({{"rope_theta", -1}}), HasSubstr("above zero"));
  EXPECT_THAT(with(5), HasSubstr("is no object"));
}

TEST(HfConfig, LongRopeIsTakenUpToItsOriginalLength) {
  Json config = changed("rope_parameters", {{"rope_type", "longrope"},
                                            {"rope_theta", 10000.0},
                                            {"short_factor", {1.5, 2.5}},
                                            {"long_factor", {4.0, 9.0}},
                                            {"original_max_position_embeddings", 64}});
  const ImportedModel model = import_config(config.dump(), weights_of(llama_tensors()));
  EXPECT_EQ(model.max_context_length, 64);
  EXPECT_THAT(ir::print(model.graph), HasSubstr("literal(1.5, 2.5)"));
  EXPECT_THAT(model.warnings, testing::ElementsAre(HasSubstr("64 instead of 128")));
  config["rope_parameters"]["short_factor"] = {1.5};
  EXPECT_THAT(outcome_of(config), HasSubstr("must hold 2 numbers"));
}

TEST(HfConfig, SizesThatCannotBeAreRefused) {
  for (const char* field :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "vocab_size", "max_position_embeddings", "intermediate_size", "head_dim"}) {
    for (const Json& bad : {Json(0), Json(-1), Json(1.5), Json("8"), Json(uint64_t{1} << 63),
                            Json(int64_t{1} << 40), Json::array()}) {
      EXPECT_THAT(outcome_of(changed(field, bad)),
                  AllOf(HasSubstr("invalid_model"), HasSubstr(field)))
          << bad;
    }
  }
  Json config = llama_config();
  config.erase("vocab_size");
  EXPECT_THAT(outcome_of(config), HasSubstr("'vocab_size' is missing"));
  EXPECT_THAT(outcome_of(changed("num_attention_heads", 3)), HasSubstr("do not divide"));
  EXPECT_THAT(outcome_of(changed("num_hidden_layers", 1025)), HasSubstr("1 to 1024"));
  EXPECT_THAT(outcome_of(changed("hidden_act", "relu6")), HasSubstr("relu6"));
}

TEST(HfConfig, TensorsMustFitTheConfiguration) {
  EXPECT_THAT(outcome_of(changed("num_hidden_layers", 2)),
              HasSubstr("9 tensors are missing: model.layers.1.self_attn.q_proj.weight"));
  EXPECT_THAT(outcome_of(changed("tie_word_embeddings", false)), HasSubstr("lm_head.weight"));
  EXPECT_THAT(outcome_of(changed("attention_bias", true)), HasSubstr("q_proj.bias"));
  EXPECT_THAT(outcome_of(changed("intermediate_size", 24)), HasSubstr("asks for [24, 8]"));
  SafetensorsBuilder tensors = llama_tensors();
  tensors.add("model.layers.0.self_attn.q_proj.bias", {8});
  EXPECT_THAT(outcome_of(llama_config().dump(), tensors), HasSubstr("q_proj.bias"));
  tensors = llama_tensors();
  tensors.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  EXPECT_EQ(outcome_of(llama_config().dump(), tensors), "ok");
  tensors.add("model.layers.0.self_attn.strange", {2}, "U8");
  EXPECT_THAT(outcome_of(llama_config().dump(), tensors),
              AllOf(HasSubstr("unsupported"), HasSubstr("strange' is U8")));
}

TEST(HfConfig, ATiedModelMayHoldItsHeadNevertheless) {
  SafetensorsBuilder tensors = llama_tensors();
  tensors.add("lm_head.weight", {6, 8});
  EXPECT_EQ(outcome_of(llama_config().dump(), tensors), "ok");
  EXPECT_EQ(outcome_of(changed("tie_word_embeddings", false).dump(), tensors), "ok");
}

TEST(HfConfig, WindowsFollowTheLayerTypes) {
  Json config = changed("model_type", "mistral");
  config["sliding_window"] = 32;
  EXPECT_EQ(import_config(config.dump(), weights_of(llama_tensors())).slots[0].window_tokens, 32);
  config["layer_types"] = {"full_attention"};
  EXPECT_EQ(import_config(config.dump(), weights_of(llama_tensors())).slots[0].window_tokens, 0);
  config["layer_types"] = {"chunked_attention"};
  EXPECT_THAT(outcome_of(config), HasSubstr("chunked_attention"));
  config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_THAT(outcome_of(config), HasSubstr("names 2 layers"));
}

// Absent is transformers' default, null is none.
TEST(HfConfig, AbsentFieldsMeanWhatTransformersMakesOfThem) {
  const auto window_of = [](const Json& config) {
    return import_config(config.dump(), weights_of(llama_tensors())).slots[0].window_tokens;
  };
  Json config = changed("model_type", "mistral");
  EXPECT_EQ(window_of(config), 4096);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(window_of(config), 0);
  config = changed("model_type", "qwen2");
  config.update({{"use_sliding_window", true}, {"max_window_layers", 0}});
  SafetensorsBuilder tensors = llama_tensors();
  for (const auto& [part, rows] : {std::pair{"q", 8}, {"k", 4}, {"v", 4}}) {
    tensors.add(std::string("model.layers.0.self_attn.") + part + "_proj.bias", {rows});
  }
  const auto qwen_window = [&] {
    return import_config(config.dump(), weights_of(tensors)).slots[0].window_tokens;
  };
  EXPECT_EQ(qwen_window(), 4096);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(qwen_window(), 0);
  config.erase("num_key_value_heads");
  EXPECT_THAT(outcome_of(config), HasSubstr("cannot share 32 KV heads"));
  config["model_type"] = "mistral";
  EXPECT_THAT(outcome_of(config), HasSubstr("cannot share 8 KV heads"));
  config["num_key_value_heads"] = nullptr;
  EXPECT_THAT(outcome_of(config), HasSubstr("asks for [8, 8]"));
}

TEST(HfConfig, ASyntheticTiedModelHasNoHeadOfItsOwn) {
  const TestFolder folder("synthetic_tied");
  Json config = llama_config();
  const auto parameters = [&] {
    folder.write("config.json", config.dump());
    return import_synthetic((folder.path / "config.json").string(), 1).num_parameters;
  };
  const int64_t tied = parameters();
  EXPECT_EQ(tied, import_config(config.dump(), weights_of(llama_tensors())).num_parameters);
  config["tie_word_embeddings"] = false;
  EXPECT_EQ(parameters(), tied + 6 * 8);
  config = {{"model_type", "gpt_neox"}, {"hidden_size", 8},
            {"intermediate_size", 16},  {"num_hidden_layers", 1},
            {"num_attention_heads", 1}, {"vocab_size", 6},
            {"rotary_pct", 0.5},        {"max_position_embeddings", 64}};
  const int64_t untied = parameters();
  config["tie_word_embeddings"] = true;
  EXPECT_EQ(parameters(), untied - 6 * 8);
}

TEST(HfConfig, YarnScalesCosAndSinWhateverTurns) {
  Json config = changed("rope_parameters", {{"rope_type", "yarn"},
                                            {"rope_theta", 10000.0},
                                            {"factor", 4.0},
                                            {"original_max_position_embeddings", 32}});
  EXPECT_THAT(graph_of(config), AllOf(HasSubstr("rope.cos_scaled"), HasSubstr("rope.sin_scaled"),
                                      HasSubstr("1.1386")));
  config["model_type"] = "smollm3";  // its fourth layers turn nothing, and are not scaled
  EXPECT_EQ(outcome_of(config), "ok");
  config["rope_parameters"]["attention_factor"] = 1e9;
  EXPECT_THAT(outcome_of(config), AllOf(HasSubstr("invalid_model"), HasSubstr("scaled by")));
}

TEST(HfConfig, FrequenciesBeyondF32NameTheirFields) {
  Json config = changed(
      "rope_parameters",
      {{"rope_type", "longrope"}, {"short_factor", {1.0, 1e-300}}, {"long_factor", {1.0, 1.0}}});
  EXPECT_THAT(outcome_of(config), AllOf(HasSubstr("invalid_model"), HasSubstr("rope_theta"),
                                        HasSubstr("frequency 1 (divided by 1e-300)")));
}

SafetensorsBuilder gemma3_tensors(const std::string& prefix) {
  SafetensorsBuilder out;
  const SafetensorsBuilder all = llama_tensors();
  for (const auto& [name, entry] : all.header.items()) {
    if (name == "__metadata__") continue;
    const std::string below = name.substr(std::string("model.").size());
    out.add(prefix + below, entry["shape"].get<std::vector<int64_t>>());
  }
  for (const char* norm : {"self_attn.q_norm", "self_attn.k_norm"}) {
    out.add(prefix + "layers.0." + norm + ".weight", {4});
  }
  for (const char* norm : {"pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
    out.add(prefix + "layers.0." + norm + ".weight", {8});
  }
  return out;
}

TEST(HfConfig, Gemma3OfTextAndImagesGivesItsTextPart) {
  Json text = llama_config();
  for (const char* field : {"architectures", "rope_parameters", "eos_token_id"}) text.erase(field);
  text["model_type"] = "gemma3_text";
  text["head_dim"] = 4;
  text["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  text["sliding_window_pattern"] = 2;
  SafetensorsBuilder tensors = gemma3_tensors("model.");
  const std::string alone = graph_of(text, tensors);
  const Json whole = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                      {"model_type", "gemma3"},
                      {"text_config", text},
                      {"vision_config", {{"hidden_size", 4}}},
                      {"mm_tokens_per_image", 256},
                      {"eos_token_id", {1, 3}}};
  tensors = gemma3_tensors("language_model.model.");
  tensors.add("vision_tower.embeddings.weight", {4, 4});
  const ImportedModel model = import_config(whole.dump(), weights_of(tensors));
  EXPECT_EQ(model.stop_ids, (std::vector<int32_t>{1, 3}));
  const std::string nodes = ir::print(model.graph);
  EXPECT_EQ(nodes.substr(nodes.find("%ids")), alone.substr(alone.find("%ids")));
  EXPECT_THAT(model.tensors[0].note, HasSubstr("reads images"));
  Json strange = whole;
  strange["text_config"]["novelty"] = 1;
  EXPECT_THAT(outcome_of(strange.dump(), tensors), HasSubstr("text_config.novelty"));
}

TEST(HfGeneration, StopIdsOfConfigGiveWay) {
  ImportedModel model;
  model.vocabulary_size = 10;
  model.stop_ids = {2};
  read_generation(R"({"temperature": 0.6})", model);
  EXPECT_EQ(model.stop_ids, std::vector<int32_t>{2});
  read_generation(R"({"eos_token_id": 7})", model);
  EXPECT_EQ(model.stop_ids, std::vector<int32_t>{7});
}

TEST(HfGeneration, StopIdsAndSamplingAreRead) {
  ImportedModel model;
  model.vocabulary_size = 10;
  model.stop_ids = {2};
  read_generation(R"({"eos_token_id": [2, 7, 99], "do_sample": true, "temperature": 0.6,
                      "top_p": 0.9, "repetition_penalty": 1.1, "num_beams": 4})",
                  model);
  EXPECT_EQ(model.stop_ids, (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(model.generation.temperature, 0.6);
  EXPECT_EQ(model.generation.top_p, 0.9);
  EXPECT_EQ(model.generation.top_k, 50);
  EXPECT_EQ(model.generation.repetition_penalty, 1.1);
  EXPECT_THAT(model.warnings, testing::ElementsAre(HasSubstr("99"), HasSubstr("num_beams")));
  ImportedModel greedy;
  read_generation(R"({"temperature": 0.6, "top_k": 3})", greedy);
  EXPECT_EQ(greedy.generation.temperature, 0);
  EXPECT_EQ(greedy.generation.top_k, 0);
  EXPECT_THROW(read_generation(R"({"do_sample": true, "top_p": 7})", greedy), Error);
  EXPECT_THROW(read_generation("[]", greedy), Error);
}

}  // namespace
}  // namespace kvern::import::hf
