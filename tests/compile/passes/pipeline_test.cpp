// All passes together on a two-layer Llama: the graph that lowering sees, and its numbers.
#include "compile/passes/pipeline.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <sstream>

#include "compile/ir/ops.h"
#include "kvern/error.h"
#include "tests/compile/passes/same_numbers.h"

namespace kvern::passes {
namespace {

using ::testing::HasSubstr;

std::string tiny_llama() {
  std::ifstream file(std::string(KVERN_TEST_DATA) + "/passes/llama_tiny.ir");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::map<std::string, int> count_ops(const ir::Graph& graph) {
  std::map<std::string, int> counts;
  for (const ir::Node& node : graph.nodes()) ++counts[node.op->name];
  return counts;
}

TEST(Pipeline, TinyLlamaIsFusedAndKeepsItsNumbers) {
  const ir::Graph before = ir::parse(tiny_llama());
  ir::Graph after = before;
  const std::vector<PassReport> reports = run_pipeline(after);
  ASSERT_EQ(reports.size(), all_passes().size());
  for (const PassReport& report : reports) {
    EXPECT_TRUE(report.notes.empty()) << report.pass << ": " << report.notes.front();
    EXPECT_EQ(report.num_changes > 0, report.pass != "dead_code") << report.pass;
  }
  const std::map<std::string, int> wanted{
      {"add_rms_norm", 4}, {"embedding", 1},   {"gather_rows", 2}, {"input", 3},
      {"kv_attention", 2}, {"linear", 9},      {"output", 1},      {"qkv_rope_append", 2},
      {"rms_norm", 1},     {"rope_angles", 1}, {"silu_mul", 2},    {"split", 4},
      {"weight", 15}};
  EXPECT_EQ(count_ops(after), wanted);
  EXPECT_EQ(ir::print(ir::parse(ir::print(after))), ir::print(after));
  expect_same_numbers(before, after);
}

TEST(Pipeline, RunningItTwiceChangesNothing) {
  ir::Graph graph = ir::parse(tiny_llama());
  run_pipeline(graph);
  const std::string once = ir::print(graph);
  run_pipeline(graph);
  EXPECT_EQ(ir::print(graph), once);
}

TEST(Pipeline, RefusesABrokenGraphBeforeTheFirstPass) {
  ir::Graph graph = ir::parse(tiny_llama());
  graph.weights.pop_back();
  EXPECT_THROW(run_pipeline(graph), InternalError);
}

TEST(Pipeline, FindsPassesByName) {
  for (const Pass& pass : all_passes()) EXPECT_EQ(find_pass(pass.name), &pass);
  EXPECT_EQ(find_pass("magic"), nullptr);
}

}  // namespace
}  // namespace kvern::passes
