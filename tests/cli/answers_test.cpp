// What the options of `run` change, and the verbs around it: tokenize, size, inspect --why,
// completion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "base/json.h"
#include "tests/cli/process.h"

namespace kvern::cli_test {
namespace {

using ::testing::HasSubstr;

class CliAnswers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Outcome built = run({"build", KVERN_TEST_DATA "/golden/tiny_llama_q.gguf", "-o", plan()});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  static std::string plan() { return temp_path("answers.plan"); }
  static Json answer(std::vector<std::string> more) {
    std::vector<std::string> args = {"run", plan(), "-p",     "hello there",
                                     "-n",  "12",   "--json", "--ignore-eos"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? json_of(outcome) : Json::object();
  }
  static Json json_of(const Outcome& outcome) {
    return parse_json(outcome.out, "standard output", Code::kInvalidArgument);
  }
};

TEST_F(CliAnswers, ASeedGivesTheSameAnswerAndAnotherOneAnother) {
  const Json one = answer({"--temperature", "1.5", "--seed", "7"}).at("ids");
  EXPECT_EQ(one.size(), 12u);
  EXPECT_EQ(answer({"--temperature", "1.5", "--seed", "7"}).at("ids"), one);
  EXPECT_NE(answer({"--temperature", "1.5", "--seed", "8"}).at("ids"), one);
  EXPECT_NE(answer({}).at("ids"), one);
}

TEST_F(CliAnswers, OneCandidateIsTheGreedyOne) {
  const Json greedy = answer({}).at("ids");
  EXPECT_EQ(answer({"--temperature", "2", "--top-k", "1"}).at("ids"), greedy);
  EXPECT_EQ(answer({"--temperature", "2", "--min-p", "1"}).at("ids"), greedy);
}

TEST_F(CliAnswers, SeveralAnswersHaveSeedsInARow) {
  const Json three = answer({"--temperature", "1.5", "--seed", "20", "--answers", "3"});
  ASSERT_EQ(three.at("answers").size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Json alone = answer({"--temperature", "1.5", "--seed", std::to_string(20 + i)});
    EXPECT_EQ(three.at("answers")[static_cast<size_t>(i)].at("ids"), alone.at("ids")) << i;
  }
}

TEST_F(CliAnswers, ABiasForbidsAToken) {
  const Json first = answer({}).at("ids")[0];
  const Json others = answer({"--logit-bias", first.dump() + "=-inf"}).at("ids");
  for (const Json& id : others) EXPECT_NE(id, first);
  EXPECT_EQ(run({"run", plan(), "-p", "a", "--logit-bias", "many=1"}).exit_code, 2);
  EXPECT_EQ(run({"run", plan(), "-p", "a", "--logit-bias", "99999=1"}).exit_code, 3);
}

TEST_F(CliAnswers, LogprobsStandBesideEveryToken) {
  const Json json = answer({"--logprobs", "3", "--prompt-logprobs"});
  ASSERT_EQ(json.at("logprobs").size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    const Json& row = json.at("logprobs")[i];
    EXPECT_EQ(row.at("id"), json.at("ids")[i]);
    ASSERT_EQ(row.at("top").size(), 3u);
    EXPECT_EQ(row.at("top")[0], Json({{"id", row.at("id")}, {"logprob", row.at("logprob")}}))
        << "greedy takes the likeliest";
    EXPECT_LE(row.at("logprob").get<double>(), 0);
  }
  EXPECT_EQ(json.at("prompt_logprobs").size(), json.at("prompt_ids").size() - 1);
  EXPECT_EQ(run({"run", plan(), "-p", "a", "--logprobs", "1"}).exit_code, 2);  // --json shows them
}

TEST_F(CliAnswers, AStopIdEndsTheAnswer) {
  const Json ids = answer({}).at("ids");
  const Json stopped = answer({"--stop-id", ids[3].dump()});
  EXPECT_EQ(stopped.at("finish_reason"), "stop");
  EXPECT_LE(stopped.at("ids").size(), 3u);
}

TEST_F(CliAnswers, TokensBecomeTextAgain) {
  const Outcome ids = run({"tokenize", plan(), "-p", "hello there", "--no-special"});
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  const std::string list = ids.out.substr(0, ids.out.size() - 1);
  EXPECT_EQ(run({"tokenize", plan(), "--decode", list}).out, "hello there\n");
  const Json json = json_of(run({"tokenize", plan(), "-p", "hello there", "--json"}));
  EXPECT_EQ(json.at("ids").size(), json.at("pieces").size());
  EXPECT_EQ(json.at("count"), json.at("ids").size());
  EXPECT_EQ(run({"tokenize", plan(), "--decode", "1,99999999"}).exit_code, 3);
  EXPECT_EQ(run({"tokenize", plan()}).exit_code, 2);
}

TEST_F(CliAnswers, WhyNamesImplementationsAndWeights) {
  const Outcome outcome = run({"inspect", plan(), "--why", "layers.0.attn.qkv"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* word : {"cpu.linear.plain", "taken", "concat_rows", "blk.0.attn_q.weight",
                           "graph: %layers.0.attn.qkv = linear("}) {
    EXPECT_THAT(outcome.out, HasSubstr(word));
  }
  const Outcome part = run({"inspect", plan(), "--why", "layers.0.attn.q"});
  EXPECT_THAT(part.out, HasSubstr("split("));
  EXPECT_THAT(outcome.out, HasSubstr("k = 32")) << "fields have names";
  const Outcome tensor = run({"inspect", plan(), "--why", "blk.0.attn_q.weight"});
  EXPECT_THAT(tensor.out, HasSubstr("weight layers.0.attn.qkv.weight"));
  const Outcome wrong = run({"inspect", plan(), "--why", "layers.77.attn.qkv"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("layers.0.attn.qkv"));
}

TEST_F(CliAnswers, SizeCountsPagesAsTheEngineDoes) {
  const std::string trace = temp_path("two.jsonl");
  write_file(trace,
             "{\"prompt_tokens\": 64, \"answer_tokens\": 0}\n\n"
             "{\"prompt_tokens\": 100, \"answer_tokens\": 60}\n");
  const Json json = json_of(run({"size", plan(), "--trace", trace, "--memory", "1G", "--json"}));
  // Pages of 32 tokens, 256 bytes a token: 2 pages; 4 pages growing to 5.
  const int64_t page = 32 * 256;
  EXPECT_EQ(json.at("requests"), 2);
  EXPECT_EQ(json.at("tokens").at("max"), 160);
  EXPECT_EQ(json.at("sequence_bytes").at("max"), 5 * page);
  EXPECT_EQ(json.at("sequence_bytes").at("mean"), (2 * page + (4 + 5) * page / 2) / 2);
  EXPECT_EQ(json.at("context_length"), 256);
  EXPECT_EQ(json.at("requests_beyond_plan"), 0);
  const Json four = json_of(run({"size", plan(), "--trace", trace, "--sequences", "4", "--json"}));
  EXPECT_EQ(four.at("sequences"), 4);
  for (const char* wrong :
       {"nonsense\n", "{\"prompt_tokens\": -1, \"answer_tokens\": 1}\n", "\n"}) {
    write_file(trace, wrong);
    const Outcome outcome = run({"size", plan(), "--trace", trace, "--memory", "1G"});
    EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(2, 3)) << wrong << outcome.err;
  }
}

// Real shapes without a checkpoint.
TEST(CliSynthetic, TheSeedAloneMakesTheWeights) {
  const std::string config = temp_path("config.json");
  write_file(config, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2})");
  const auto ids_of = [&](const std::string& seed, const std::string& weights) {
    const std::string plan = temp_path("synthetic.plan");
    const Outcome built =
        run({"build", "synthetic:" + config, "-o", plan, "--seed", seed, "--weights", weights});
    EXPECT_EQ(built.exit_code, 0) << built.err;
    EXPECT_LT(read_file(plan).size(), 60000u) << "the plan holds no weights";
    const Outcome outcome =
        run({"run", plan, "--prompt-ids", "5,6,7", "-n", "16", "--ignore-eos", "--ids", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json json = parse_json(outcome.out, "standard output", Code::kInvalidArgument);
    EXPECT_EQ(json.at("synthetic"), true);
    EXPECT_EQ(
        run({"run", plan, "--prompt-ids", "5", "-n", "3", "--ignore-eos", "-q"}).out.size() > 5,
        true)
        << "without a tokenizer ids are printed";
    EXPECT_THAT(run({"inspect", plan}).out, HasSubstr("SYNTHETIC"));
    EXPECT_EQ(run({"verify", plan}).exit_code, 0);
    return json.at("ids");
  };
  for (const char* weights : {"keep", "int8", "int4", "f32"}) {
    const Json one = ids_of("1", weights);
    EXPECT_EQ(ids_of("1", weights), one) << weights;
    EXPECT_NE(ids_of("2", weights), one) << weights;
  }
  EXPECT_EQ(run({"build", "synthetic:/no/such/config.json", "-o", temp_path("x")}).exit_code, 3);
}

TEST(CliCompletion, ShellsTakeTheScripts) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run({"completion", shell});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const char* word : {"tokenize", "temperature", "kvern"}) {
      EXPECT_THAT(outcome.out, HasSubstr(word)) << shell;
    }
  }
  const std::string script = temp_path("kvern.bash");
  write_file(script, run({"completion", "bash"}).out);
  const std::string ask = "bash -c 'source " + script +
                          "; COMP_WORDS=(kvern run --temp); COMP_CWORD=2; _kvern; "
                          "[[ ${COMPREPLY[*]} == --temperature ]]'";
  EXPECT_EQ(std::system(ask.c_str()), 0);
  EXPECT_EQ(run({"completion", "cmd.exe"}).exit_code, 2);
}

}  // namespace
}  // namespace kvern::cli_test
