// Whole graphs: inputs, weights, KV state over chunks, masks.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "compile/eval/eval.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HostTensor i32(std::vector<int32_t> values) {
  return {{static_cast<int64_t>(values.size())}, {}, std::move(values)};
}

HostTensor slice(const HostTensor& x, int64_t begin, int64_t end) {
  const int64_t width = x.shape[1];
  return {{end - begin, width}, {x.f32.begin() + begin * width, x.f32.begin() + end * width}, {}};
}

// 12 tokens of q [2 heads x 4], k [1 x 4], v [1 x 3].
struct Sequence {
  HostTensor q{{12, 8}, {}, {}}, k{{12, 4}, {}, {}}, v{{12, 3}, {}, {}};
  Sequence() {
    std::mt19937 random(5);
    for (HostTensor* t : {&q, &k, &v}) {
      for (int64_t i = 0; i < num_elements(t->shape); ++i) {
        t->f32.push_back(std::uniform_real_distribution<float>(-2, 2)(random));
      }
    }
  }
};

ir::Graph attention_graph(const std::string& attrs, const std::string& weights = "",
                          const std::string& nodes = "", const std::string& more = "") {
  return ir::parse(fmt::format(R"(graph "t" {{
  {}
  %q = input() {{name = "q", dtype = 0, width = 8}} : f32[tokens, 8]
  %k = input() {{name = "k", dtype = 0, width = 4}} : f32[tokens, 4]
  %v = input() {{name = "v", dtype = 0, width = 3}} : f32[tokens, 3]
  {}
  %kv = kv_append(%k, %v) {{slot = 3, kv_heads = 1, dim_k = 4, dim_v = 3}} : !kv
  %y = kv_attention(%q, %kv{}) {{slot = 3, heads = 2, kv_heads = 1, dim_k = 4, dim_v = 3,
      scale = 0.5{}}} : f32[tokens, 6]
  output(%y) {{name = "y"}}
}})",
                               weights, nodes, more, attrs));
}

// The rows of y when the sequence comes in chunks of `step`.
std::vector<float> run_in_chunks(const ir::Graph& graph, int64_t step) {
  const Sequence s;
  RandomWeights weights(1);
  KvState kv;
  std::vector<float> y;
  for (int64_t begin = 0; begin < 12; begin += step) {
    const int64_t end = std::min<int64_t>(12, begin + step);
    const auto out = run(graph,
                         {{"q", slice(s.q, begin, end)},
                          {"k", slice(s.k, begin, end)},
                          {"v", slice(s.v, begin, end)}},
                         weights, kv);
    y.insert(y.end(), out.at("y").f32.begin(), out.at("y").f32.end());
  }
  return y;
}

// The same in double precision; sees(i, j) is the mask, bias(h, i, j) joins the score.
template <class Sees, class Score>
void expect_attention(const ir::Graph& graph, Sees sees, Score score,
                      double sink_of_head_1 = -1e9) {
  const Sequence s;
  const std::vector<float> y = run_in_chunks(graph, 12);
  for (int i = 0; i < 12; ++i) {
    for (int h = 0; h < 2; ++h) {
      double total = h == 1 ? std::exp(sink_of_head_1) : 0;
      double sums[3] = {};
      for (int j = 0; j < 12; ++j) {
        if (!sees(i, j)) continue;
        double dot = 0;
        for (int d = 0; d < 4; ++d) dot += double{s.q.f32[i * 8 + h * 4 + d]} * s.k.f32[j * 4 + d];
        const double weight = std::exp(score(dot * 0.5, h, j - i));
        total += weight;
        for (int d = 0; d < 3; ++d) sums[d] += weight * s.v.f32[j * 3 + d];
      }
      for (int d = 0; d < 3; ++d) {
        ASSERT_NEAR(y[static_cast<size_t>(i * 6 + h * 3 + d)], sums[d] / total, 1e-5)
            << "token " << i << " head " << h;
      }
    }
  }
}

double plain(double score, int, int) {
  return score;
}

TEST(EvalAttention, CausalSeesItselfAndAllBefore) {
  expect_attention(
      attention_graph(""), [](int i, int j) { return j <= i; }, plain);
}

TEST(EvalAttention, WindowSeesItsLastTokens) {
  expect_attention(
      attention_graph(", mask = 1, window = 3"), [](int i, int j) { return j <= i && j > i - 3; },
      plain);
}

TEST(EvalAttention, ChunkSeesItsOwnChunk) {
  expect_attention(
      attention_graph(", mask = 2, window = 5"),
      [](int i, int j) { return j <= i && j / 5 == i / 5; }, plain);
}

TEST(EvalAttention, SoftcapBoundsScores) {
  expect_attention(
      attention_graph(", softcap = 0.75"), [](int i, int j) { return j <= i; },
      [](double s, int, int) { return 0.75 * std::tanh(s / 0.75); });
}

TEST(EvalAttention, SinksAndAlibiJoinTheScores) {
  const ir::Graph graph = attention_graph(", has_sinks = true, has_alibi = true",
                                          "weight \"s\" f32[2] store f32 = literal(-1e9, 1.5)\n"
                                          "weight \"a\" f32[2] store f32 = literal(0.5, 0.125)",
                                          "%s = weight() {name = \"s\", shape = [2]} : f32[2]\n"
                                          "%a = weight() {name = \"a\", shape = [2]} : f32[2]",
                                          ", %s, %a");
  expect_attention(
      graph, [](int i, int j) { return j <= i; },
      [](double s, int h, int distance) { return s + (h == 0 ? 0.5 : 0.125) * distance; }, 1.5);
}

TEST(EvalAttention, HeadsReadTheKvHeadOfTheirGroup) {
  // One token: each head's answer is v of its KV head, whatever the scores.
  const ir::Graph graph = ir::parse(R"(graph "t" {
  %q = input() {name = "q", dtype = 0, width = 4} : f32[tokens, 4]
  %k = input() {name = "k", dtype = 0, width = 2} : f32[tokens, 2]
  %kv = kv_append(%k, %k) {kv_heads = 2, dim_k = 1, dim_v = 1} : !kv
  %y = kv_attention(%q, %kv) {heads = 4, kv_heads = 2, dim_k = 1, dim_v = 1} : f32[tokens, 4]
  output(%y) {name = "y"}
})");
  RandomWeights weights(1);
  KvState kv;
  const auto out =
      run(graph, {{"q", {{1, 4}, {1, 2, 3, 4}, {}}}, {"k", {{1, 2}, {5, 7}, {}}}}, weights, kv);
  EXPECT_THAT(out.at("y").f32, ElementsAre(5, 5, 7, 7));
  EXPECT_THAT(
      [&] {
        run(graph, {{"q", {{1, 3}, {1, 2, 3}, {}}}}, weights, kv);
      },
      ThrowsMessage<Error>(HasSubstr("'q' must be f32[tokens, 4], got shape [1, 3]")));
}

TEST(EvalAttention, ChunkingChangesNoBit) {
  for (const char* attrs : {"", ", mask = 1, window = 3", ", mask = 2, window = 5"}) {
    const ir::Graph graph = attention_graph(attrs);
    const std::vector<float> whole = run_in_chunks(graph, 12);
    for (const int64_t step : {1, 5, 7}) EXPECT_EQ(run_in_chunks(graph, step), whole) << step;
  }
}

TEST(EvalRun, RefusesInputsThatAreMissingOrDoNotFit) {
  const ir::Graph graph = ir::parse(
      "graph \"t\" { %x = input() {name = \"x\"} : i32[tokens]\n"
      "%p = input() {name = \"p\"} : i32[tokens] output(%x) {name = \"y\"} }");
  RandomWeights weights(1);
  KvState kv;
  const auto outcome = [&](const std::map<std::string, HostTensor>& inputs) {
    return [&, inputs] { run(graph, inputs, weights, kv); };
  };
  EXPECT_NO_THROW(outcome({{"x", i32({1, 2})}, {"p", i32({1, 2})}})());
  EXPECT_THAT(outcome({{"x", i32({1, 2})}}), ThrowsMessage<Error>(HasSubstr("'p' is missing")));
  EXPECT_THAT(outcome({{"x", i32({1, 2})}, {"p", i32({1})}}),
              ThrowsMessage<Error>(HasSubstr("'p' must be i32[tokens], got shape [1]")));
  EXPECT_THAT(outcome({{"x", HostTensor{{2}, {1, 2}, {}}}, {"p", i32({1, 2})}}),
              ThrowsMessage<Error>(HasSubstr("'x' must be i32[tokens], got shape [2] and 0")));
}

TEST(RandomWeights, FollowSourcesAndRecipes) {
  const ir::Graph graph = ir::parse(R"(graph "t" {
  file "f"
  source "a" F32[4, 2] file 0 at 0 bytes 32
  source "b" F32[1, 2] file 0 at 32 bytes 8
  weight "a" f32[4, 2] store f32 = "a"
  weight "b" f32[1, 2] store f32 = "b"
  weight "turned" f32[4, 2] store f32 = unpermute("a", 1)
  weight "both" f32[5, 2] store f32 = concat_rows("a", "b")
  weight "one" f32[3] store f32 = literal(1, 2.5, -3)
})");
  RandomWeights weights(9);
  const auto load = [&](int i) { return weights.load(graph, graph.weights[i]).f32; };
  const std::vector<float> a = load(0);
  std::vector<float> both = a;
  for (const float value : load(1)) both.push_back(value);
  EXPECT_NE(a[0], a[1]);
  EXPECT_NE(a[0], load(1)[0]);
  EXPECT_EQ(load(3), both);
  EXPECT_THAT(load(2), ElementsAre(a[0], a[1], a[4], a[5], a[2], a[3], a[6], a[7]));
  EXPECT_THAT(load(4), ElementsAre(1, 2.5f, -3));
  EXPECT_NE(RandomWeights(10).load(graph, graph.weights[0]).f32, a);
}

TEST(EvalRun, TinyLlamaGivesTheSameLogitsInChunks) {
  std::ifstream file(std::string(KVERN_TEST_DATA) + "/passes/llama_tiny.ir");
  std::stringstream text;
  text << file.rdbuf();
  const ir::Graph graph = ir::parse(text.str());
  RandomWeights weights(3);
  const std::vector<int32_t> ids{5, 9, 63, 0, 17, 17, 2};
  const auto logits = [&](size_t step) {
    KvState kv;
    std::vector<float> out;
    for (size_t begin = 0; begin < ids.size(); begin += step) {
      const size_t end = std::min(ids.size(), begin + step);
      std::vector<int32_t> positions;
      for (size_t i = begin; i < end; ++i) positions.push_back(static_cast<int32_t>(i));
      const auto y = run(graph,
                         {{"ids", i32({ids.begin() + static_cast<int64_t>(begin),
                                       ids.begin() + static_cast<int64_t>(end)})},
                          {"positions", i32(positions)}},
                         weights, kv);
      out.insert(out.end(), y.at("logits").f32.begin(), y.at("logits").f32.end());
    }
    return out;
  };
  const std::vector<float> whole = logits(7);
  ASSERT_EQ(whole.size(), 7u * 64);
  EXPECT_EQ(logits(1), whole);
  EXPECT_EQ(logits(3), whole);
  // Equal ids at different places see different contexts.
  EXPECT_FALSE(std::equal(&whole[4 * 64], &whole[5 * 64], &whole[5 * 64]));
}

}  // namespace
}  // namespace kvern::eval
