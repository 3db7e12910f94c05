// Where a config.json beside an export says something else than its graph.
#include "compile/contradictions.h"

#include <gmock/gmock.h>

#include "compile/tensor_form.h"

namespace kvern::compile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Contradictions : public ::testing::Test {
 protected:
  // Two layers, full attention, no softcap.
  import::ImportedModel model_ = import::load(KVERN_TEST_DATA "/golden/onnx/llama_gqa__opt_past");
  Conversion conversion_ = *convert_tensor_form(model_, {});
  import::ConfigFacts config_ = *model_.config;

  std::vector<std::string> found() {
    return contradictions(config_, conversion_.form, model_.graph);
  }
};

TEST_F(Contradictions, TheExportersOwnConfigurationAgrees) {
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Contradictions, DroppedSoftcapsAreNamed) {
  config_.attention_softcap = 50;
  config_.final_softcap = 30;
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("attn_logit_softcapping 50, the graph caps no scores of layers "
                                    "0, 1"),
                          HasSubstr("final_logit_softcapping 30, the graph caps no logits")));
}

TEST_F(Contradictions, WindowsThatAreMissingAreNamed) {
  config_.sliding_window = 8;
  config_.layer_types = {"full_attention", "sliding_attention"};
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the graph's layers 1 see everything; Kvern does what "
                                             "the graph says")));
}

TEST_F(Contradictions, WindowsOnTheWrongLayersAreNamed) {
  config_.sliding_window = 8;
  config_.layer_types = {"full_attention", "sliding_attention"};
  conversion_.form.layers[0].mask = conversion_.form.layers[1].mask = "window 8";
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the graph's layers 0 have a window")));
}

TEST_F(Contradictions, AWindowAsLongAsTheContextIsNone) {
  config_.sliding_window = config_.max_context_length;
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Contradictions, AFrozenLongRopeIsNamed) {
  config_.rope_type = "longrope";
  config_.original_context_length = 32;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the graph holds one set for all lengths")));
  conversion_.form.notes = {"node 'If' chooses by length; the plan holds what it chooses at 128"};
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Contradictions, SizesAreCompared) {
  config_.num_layers = 3;
  config_.num_kv_heads = 4;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("num_hidden_layers 3, the graph has 2"),
                                   HasSubstr("num_key_value_heads 4, the graph has 2")));
}

TEST_F(Contradictions, AnotherVocabularyAndEpsilonAreNamed) {
  config_.vocabulary_size = 400;
  config_.norm_eps = 1e-3;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("vocab_size 400, the graph has 384"),
                                   HasSubstr("rms_norm_eps 0.001, the graph's norms have")));
}

TEST_F(Contradictions, AnotherRotationIsNamed) {
  ASSERT_EQ(config_.ropes.size(), 1u);  // llama3
  const import::ConfigRope said = config_.ropes[0];
  config_.ropes[0].attrs.base *= 1.1;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the graph turns by other frequencies")));
  config_.ropes[0] = said;
  config_.ropes[0].attrs.scaling = ir::FrequencyScaling::kNone;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the graph turns by other frequencies")));
  config_.ropes.push_back(said);  // of some layers
  EXPECT_THAT(found(), IsEmpty());
}

}  // namespace
}  // namespace kvern::compile
