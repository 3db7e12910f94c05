// What node tests and the golden file do not cover: windows, lengths of padded keys, rows that see
// nothing, refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

std::vector<float> run_y(const std::string& text, int64_t opset) {
  const TensorGraph graph = ir::parse_tensor_graph(text, opset);
  const auto outputs = run_tensor_graph(graph, {});
  std::vector<float> y = outputs.at("y").to_f32();
  for (float& value : y) value = std::round(value * 1000) / 1000;
  return y;
}

std::string refusal(const std::string& text, int64_t opset = 24) {
  try {
    run_tensor_graph(ir::parse_tensor_graph(text, opset), {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// One head of one dim whose scores are all 0: y is the mean of the values that a query sees. The
// values are powers of two, so a mean says which ones they were.
std::string uniform(int rows, int keys, const std::string& rest, const std::string& extra = "") {
  std::vector<int> values;
  for (int i = 0; i < keys; ++i) values.push_back(1 << i);
  return fmt::format(R"(
    const %q float[1, 1, {0}, 1] = {{{1}}}
    const %k float[1, 1, {2}, 1] = {{{3}}}
    const %v float[1, 1, {2}, 1] = {{{4}}}
    {5}
    %y = Attention(%q, %k, %v{6}
    output %y)",
                     rows, fmt::join(std::vector<int>(static_cast<size_t>(rows)), ", "), keys,
                     fmt::join(std::vector<int>(static_cast<size_t>(keys)), ", "),
                     fmt::join(values, ", "), extra, rest);
}

TEST(TensorAttention, WindowsComposeWithCausal) {
  // Queries stand at 0, 1 and 2 of 5 keys.
  EXPECT_EQ(run_y(uniform(3, 5, ") {left_window_size = 1, right_window_size = 1}"), 25),
            (std::vector<float>{1.5, 2.333F, 4.667F}));
  EXPECT_EQ(run_y(uniform(3, 5, ") {left_window_size = 1, is_causal = 1}"), 25),
            (std::vector<float>{1, 1.5, 3}));
  EXPECT_EQ(run_y(uniform(3, 5, ") {right_window_size = 0}"), 25),
            (std::vector<float>{1, 1.5, 2.333F}));
}

TEST(TensorAttention, CausalCountsFromTheEndOfThePast) {
  const std::string past =
      "const %pk float[1, 1, 2, 1] = {0, 0}\nconst %pv float[1, 1, 2, 1] = {100, 300}\n";
  EXPECT_EQ(run_y(uniform(1, 4, ", _, %pk, %pv) {is_causal = 1}", past), 24),
            (std::vector<float>{133.667F}));
}

// ONNX Runtime 1.32 gives the same: a new token sees all keys up to its sequence's length.
TEST(TensorAttention, CausalEndsAtTheLengthOfPaddedKeys) {
  const std::string lengths = "const %n int64[1] = {3}\n";
  EXPECT_EQ(run_y(uniform(1, 5, ", _, _, _, %n) {is_causal = 1}", lengths), 24),
            (std::vector<float>{2.333F}));
  const std::string four = "const %n int64[1] = {4}\n";
  EXPECT_EQ(run_y(uniform(3, 5, ", _, _, _, %n) {is_causal = 1}", four), 24),
            (std::vector<float>{1.5, 2.333F, 3.75}));
}

TEST(TensorAttention, ARowThatSeesNothingIsZero) {
  const std::string mask = "const %m bool[3, 5] = {0,0,0,0,0, 1,0,0,0,0, 0,0,1,1,0}\n";
  EXPECT_EQ(run_y(uniform(3, 5, ", %m)", mask), 23), (std::vector<float>{0, 1, 6}));
}

TEST(TensorAttention, AShortMaskHidesTheRestFromOpset24On) {
  const std::string mask = "const %m float[3, 2] = {0, 0, 0, -inf, 0, 0}\n";
  EXPECT_EQ(run_y(uniform(3, 5, ", %m)", mask), 24), (std::vector<float>{1.5, 1, 1.5}));
  EXPECT_NE(refusal(uniform(3, 5, ", %m)", mask), 23).find("does not broadcast"),
            std::string::npos);
}

TEST(TensorAttention, WhatIsNotSeenMayHoldAnything) {
  const std::string text = R"(
    const %q float[1, 1, 1, 1] = {1}
    const %k float[1, 1, 2, 1] = {1, nan}
    const %v float[1, 1, 2, 1] = {5, nan}
    const %m bool[1, 2] = {1, 0}
    %y = Attention(%q, %k, %v, %m)
    output %y)";
  const std::vector<float> y = run_y(text, 24);
  EXPECT_EQ(y[0], 5) << "a bool mask hides even what is no number";
}

TEST(TensorAttention, RefusesWhatDoesNotFit) {
  EXPECT_NE(refusal(uniform(1, 5, ", _, %k)")).find("past_key and past_value go together"),
            std::string::npos);
  EXPECT_NE(refusal(uniform(1, 5, ", _, _, _, %n)", "const %n int64[1] = {6}\n")).find("6 of 5"),
            std::string::npos);
  EXPECT_NE(refusal(uniform(1, 5, ", %m)", "const %m float[1, 1, 1, 1, 5] = 0\n"))
                .find("does not broadcast"),
            std::string::npos);
  EXPECT_NE(refusal("const %q float[1, 2, 6] = 0\n%y = Attention(%q, %q, %q) {q_num_heads = 4, "
                    "kv_num_heads = 2}\noutput %y")
                .find("does not hold 4 heads"),
            std::string::npos);
}

TEST(TensorAttention, RotationRefusesPositionsBeyondItsTables) {
  const std::string text = R"(
    const %x float[1, 1, 1, 4] = {1, 2, 3, 4}
    const %c float[2, 2] = {1, 1, 0, 0}
    const %s float[2, 2] = {0, 0, 1, 1}
    const %p int64[1, 1] = {POSITION}
    %y = RotaryEmbedding(%x, %c, %s, %p)
    output %y)";
  const auto at = [&](const char* position) {
    std::string out = text;
    return out.replace(out.find("POSITION"), 8, position);
  };
  EXPECT_EQ(run_y(at("1"), 23), (std::vector<float>{-3, -4, 1, 2}));
  EXPECT_NE(refusal(at("2")).find("position 2 is beyond"), std::string::npos);
  EXPECT_NE(refusal(at("-1")).find("position -1 is beyond"), std::string::npos);
}

std::string gqa(const std::string& seqlens, const std::string& total) {
  return fmt::format(R"(
    const %q float[1, 1, 4] = {{0, 0, 1, 1}}
    const %p float[1, 1, 2, 1] = {{0, 0}}
    const %n int32[1] = {{{0}}}
    const %t int32[] = {{{1}}}
    %y, %k, %v = com.microsoft.GroupQueryAttention(%q, _, _, %p, %p, %n, %t) {{num_heads = 2, kv_num_heads = 1}}
    output %y
    output %k)",
                     seqlens, total);
}

TEST(TensorAttention, GroupQueryAttentionTrustsNoLength) {
  EXPECT_EQ(run_y(gqa("2", "3"), 1).size(), 2U);
  for (const char* bad : {"-1", "3", "2147483647"}) {
    EXPECT_NE(refusal(gqa(bad, "3")).find("seqlens_k is"), std::string::npos) << bad;
  }
  EXPECT_NE(refusal(gqa("4", "5")).find("is not in a cache of 2"), std::string::npos);
  EXPECT_NE(refusal(gqa("2", "-3")).find("total_sequence_length"), std::string::npos);
}

}  // namespace
}  // namespace kvern::eval
