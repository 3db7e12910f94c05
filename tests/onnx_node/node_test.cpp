// Every node test of ONNX whose ops are in the op table. The folder onnx/backend/test/data/node of
// the pinned wheel is named by KVERN_ONNX_NODE_TESTS (scripts/fetch_onnx_node_tests).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"
#include "tests/onnx_node/node_case.h"

namespace kvern::onnx_node {
namespace {

struct Count {
  int passed = 0, total = 0;
};

// "case: reason" by case.
std::map<std::string, std::string> not_passed_list() {
  std::map<std::string, std::string> out;
  std::ifstream file(std::string(KVERN_TEST_DATA) + "/onnx_node/not_passed.txt");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    out[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return out;
}

// The first op that the table does not have, also in bodies.
std::optional<std::string> unknown_op(const ir::TensorGraph& graph) {
  for (const ir::TensorNode& node : graph.nodes) {
    if (eval::find_tensor_op(node) == nullptr) return fmt::format("{}.{}", node.domain, node.op);
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr);
      if (body == nullptr) continue;
      if (auto inside = unknown_op(**body)) return inside;
    }
  }
  return std::nullopt;
}

// Empty when the case passes.
std::string run_case(const NodeCase& given) {
  const ir::TensorGraph& graph = given.model.model.graph;
  std::map<std::string, ir::Array> inputs;
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    if (i >= graph.inputs.size()) return "more inputs than the graph takes";
    inputs[graph.name_of(graph.inputs[i])] = given.inputs[i];
  }
  const auto outputs = eval::run_tensor_graph(graph, inputs);
  if (graph.outputs.size() != given.outputs.size()) return "another number of outputs";
  for (size_t i = 0; i < given.outputs.size(); ++i) {
    const std::string& name = graph.name_of(graph.outputs[i]);
    const std::string problem = difference(outputs.at(name), given.outputs[i]);
    if (!problem.empty()) return fmt::format("output '{}': {}", name, problem);
  }
  return "";
}

struct Outcome {
  std::string op;  // empty: an op that is not in the table
  std::string problem;
};

Outcome try_case(const std::filesystem::path& folder) {
  Outcome out;
  try {
    const auto model = import::onnx::read_onnx((folder / "model.onnx").string());
    if (unknown_op(model.model.graph)) return out;
    out.op = op_of(model.model.graph);
    out.problem = run_case(read_case(folder));
  } catch (const std::exception& error) {
    if (out.op.empty()) out.op = "(not read)";
    out.problem = error.what();
  }
  return out;
}

TEST(E2eOnnxNode, EveryCaseOfTheTablePassesOrIsListed) {
  const char* folder = std::getenv("KVERN_ONNX_NODE_TESTS");
  if (folder == nullptr) GTEST_SKIP() << "KVERN_ONNX_NODE_TESTS is not set";
  const char* only = std::getenv("KVERN_ONNX_NODE_FILTER");
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const bool wanted = only == nullptr || entry.path().string().find(only) != std::string::npos;
    if (entry.is_directory() && wanted) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  ASSERT_FALSE(cases.empty()) << folder << " holds no cases";
  std::map<std::string, std::string> listed = not_passed_list();
  std::map<std::string, Count> counts;
  int elsewhere = 0;
  for (const auto& path : cases) {
    const std::string name = path.filename().string();
    const Outcome outcome = try_case(path);
    const bool expected = listed.erase(name) > 0;
    if (outcome.op.empty()) {
      ++elsewhere;
      EXPECT_FALSE(expected) << name << " is listed, and its ops are not in the table";
      continue;
    }
    Count& count = counts[outcome.op];
    ++count.total;
    if (outcome.problem.empty()) ++count.passed;
    EXPECT_FALSE(outcome.problem.empty() && expected) << name << " is listed, and passes";
    if (!outcome.problem.empty() && !expected) ADD_FAILURE() << name << ": " << outcome.problem;
  }
  Count all;
  std::string table;
  for (const auto& [op, count] : counts) {
    table += fmt::format("report: onnx {} {}/{}\n", op, count.passed, count.total);
    all.passed += count.passed;
    all.total += count.total;
  }
  fmt::print("{}report: onnx node tests: {}/{} passed, {} of ops that are not in the table\n",
             table, all.passed, all.total, elsewhere);
  if (only == nullptr) {
    for (const auto& [name, reason] : listed) ADD_FAILURE() << name << " is listed, and is no case";
  }
}

}  // namespace
}  // namespace kvern::onnx_node
