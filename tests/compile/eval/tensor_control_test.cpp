#include <gtest/gtest.h>

#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

std::map<std::string, Array> run(const std::string& text) {
  return run_tensor_graph(ir::parse_tensor_graph(text, 21), {});
}

std::string refusal(const std::string& text) {
  try {
    run(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TensorControl, IfRunsOneBranchOnly) {
  const std::string text = R"(
    const %c bool[] = {COND}
    const %x float[2] = {1, 2}
    const %two float[] = {2}
    %y = If(%c) {then_branch = graph { %a = Mul(%x, %two) output %a },
                 else_branch = graph { %b = Nonsense(%x) output %b }}
    output %y)";
  std::string yes = text;
  EXPECT_EQ(run(yes.replace(yes.find("COND"), 4, "1")).at("y").to_f32(),
            (std::vector<float>{2, 4}));
  std::string no = text;
  EXPECT_NE(refusal(no.replace(no.find("COND"), 4, "0")).find("Nonsense"), std::string::npos);
}

// Sums 0 + 1 + … until the sum is 10, with every sum kept.
constexpr const char* kLoop = R"(
    const %trips int64[] = {TRIPS}
    const %zero int64[] = {0}
    const %most int64[] = {10}
    %sum, %all = Loop(%trips, _, %zero) {body = graph {
      input %i
      input %c
      input %s
      %next = Add(%s, %i)
      %go = Less(%next, %most)
      output %go
      output %next
      output %next
    }}
    output %sum
    output %all)";

std::string loop(const char* trips) {
  std::string text = kLoop;
  return text.replace(text.find("TRIPS"), 5, trips);
}

TEST(TensorControl, LoopStopsByItsConditionOrItsTrips) {
  auto by_condition = run(loop("100"));
  EXPECT_EQ(by_condition.at("sum").to_i64(), (std::vector<int64_t>{10}));
  EXPECT_EQ(by_condition.at("all").to_i64(), (std::vector<int64_t>{0, 1, 3, 6, 10}));
  auto by_trips = run(loop("3"));
  EXPECT_EQ(by_trips.at("all").to_i64(), (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(run(loop("-1")).at("sum").to_i64(), (std::vector<int64_t>{0}));
}

TEST(TensorControl, LoopDoesNotRunForever) {
  EXPECT_NE(refusal(R"(
    const %go bool[] = {1}
    Y = Loop(_, %go) {body = graph { input %i input %c output %c }})"),
            "");
  EXPECT_NE(refusal(R"(
    const %go bool[] = {1}
    const %x float[] = {1}
    %y = Loop(_, %go, %x) {body = graph { input %i input %c input %s output %c output %s }}
    output %y)")
                .find("trips"),
            std::string::npos);
}

TEST(TensorControl, ItsTripsAreLimitedByTheRun) {
  TensorRunOptions options;
  options.max_loop_trips = 4;  // five are wanted
  EXPECT_THROW(run_tensor_graph(ir::parse_tensor_graph(loop("100"), 21), {}, options), Error);
  options.max_loop_trips = 5;
  EXPECT_NO_THROW(run_tensor_graph(ir::parse_tensor_graph(loop("100"), 21), {}, options));
}

TEST(TensorControl, ScanWalksAxesBothWays) {
  auto out = run(R"(
    const %zero float[2] = {0, 0}
    const %x float[2, 3] = {1, 2, 3, 10, 20, 30}
    %sum, %all = Scan(%zero, %x) {num_scan_inputs = 1, scan_input_axes = [1],
                                  scan_input_directions = [1], scan_output_axes = [1],
                                  body = graph {
      input %s
      input %e
      %next = Add(%s, %e)
      output %next
      output %next
    }}
    output %sum
    output %all)");
  EXPECT_EQ(out.at("sum").to_f32(), (std::vector<float>{6, 60}));
  EXPECT_EQ(out.at("all").to_f32(), (std::vector<float>{3, 5, 6, 30, 50, 60}));
}

TEST(TensorControl, BodiesMustFit) {
  EXPECT_NE(refusal(R"(
    const %c float[] = {1}
    %y = If(%c) {then_branch = graph { output %c }, else_branch = graph { output %c }}
    output %y)")
                .find("one bool"),
            std::string::npos);
  EXPECT_NE(refusal(R"(
    const %c bool[] = {1}
    %y = If(%c) {else_branch = graph { output %c }}
    output %y)")
                .find("'then_branch' is wanted"),
            std::string::npos);
}

}  // namespace
}  // namespace kvern::eval
