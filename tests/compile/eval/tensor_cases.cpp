#include "tests/compile/eval/tensor_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

std::string differs(const Array& got, const Array& want, double tolerance) {
  if (got.type() != want.type() || got.shape() != want.shape()) {
    return fmt::format("is {} {}, wanted {} {}", ir::element_type_name(got.type()),
                       to_string(got.shape()), ir::element_type_name(want.type()),
                       to_string(want.shape()));
  }
  if (!ir::is_float(got.type())) {
    const bool same = std::memcmp(got.bytes().data(), want.bytes().data(), got.bytes().size()) == 0;
    return same ? "" : "has other elements";
  }
  const bool half = got.type() == ElementType::kFloat16 || got.type() == ElementType::kBfloat16;
  const double within = half ? 10 * tolerance : tolerance;
  const std::vector<double> a = got.to_f64();
  const std::vector<double> b = want.to_f64();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= within * (1 + std::abs(b[i]));
    if (!same) return fmt::format("has {} at {}, wanted {}", a[i], i, b[i]);
  }
  return "";
}

TensorFact fact_of(const Array& array, bool known) {
  return {array.type(), array.shape(), known ? &array : nullptr};
}

// The node's facts against what evaluation gave.
std::string compare_facts(const TensorNode& node, const std::vector<TensorFact>& facts,
                          const std::vector<Array>& made) {
  for (size_t i = 0; i < made.size(); ++i) {
    if (!node.has_output(i) || made[i].type() == ElementType::kUndefined) continue;
    if (i >= facts.size()) return fmt::format("{}: output {} is not inferred", node.who(), i);
    if (facts[i].type != made[i].type() || facts[i].shape != made[i].shape()) {
      return fmt::format("{}: output {} is {} {}, inferred {} {}", node.who(), i,
                         ir::element_type_name(made[i].type()), to_string(made[i].shape()),
                         ir::element_type_name(facts[i].type), to_string(facts[i].shape));
    }
  }
  return "";
}

// Floats are what a graph computes; integers and bools are known while it is folded.
std::string infer_node(const TensorNode& node, const std::vector<const Array*>& inputs) {
  const std::vector<Array> made = run_tensor_node(node, inputs);
  for (const bool all_known : {true, false}) {
    std::vector<TensorFact> facts;
    facts.reserve(inputs.size());
    std::vector<const TensorFact*> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool counts = node.op == "Range" || node.op == "OneHot";  // floats say lengths there
      const bool known = all_known || counts ||
                         (i > 0 && inputs[i] != nullptr && !ir::is_float(inputs[i]->type()));
      facts.push_back(inputs[i] == nullptr ? TensorFact{} : fact_of(*inputs[i], known));
      given.push_back(inputs[i] == nullptr ? nullptr : &facts.back());
    }
    if (!all_known && (node.op == "NonZero" || node.op == "Compress" ||
                       node.op == "ConstantOfShape" || node.op == "Unique")) {
      continue;
    }
    const std::string problem = compare_facts(node, infer_tensor_node(node, given), made);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace

std::vector<TensorCase> read_tensor_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(Code::kInvalidArgument, fmt::format("{}: cannot be read", path));
  std::vector<TensorCase> cases;
  std::string line, text;
  const auto finish = [&] {
    if (cases.empty()) return;
    try {
      cases.back().graph = ir::parse_tensor_graph(text);
    } catch (const Error& error) {
      throw Error(Code::kInvalidModel,
                  fmt::format("{}: case {}: {}", path, cases.back().name, error.what()));
    }
    text.clear();
  };
  while (std::getline(file, line)) {
    if (line.starts_with("case ")) {
      finish();
      cases.push_back({line.substr(5), {}});
    } else {
      text += line + "\n";
    }
  }
  finish();
  return cases;
}

std::string run_tensor_case(const TensorCase& test, double tolerance) {
  const ir::TensorGraph& graph = test.graph;
  const auto outputs = run_tensor_graph(graph, {});
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ir::TensorValueId id = graph.outputs[i];
    const Array& want = graph.constants.at(graph.find(fmt::format("want.{}", i)));
    const std::string problem = differs(outputs.at(graph.name_of(id)), want, tolerance);
    if (!problem.empty()) return fmt::format("'{}' {}", graph.name_of(id), problem);
  }
  return "";
}

std::string infer_tensor_case(const TensorCase& test) {
  const ir::TensorGraph& graph = test.graph;
  for (const TensorNode& node : graph.nodes) {
    if (node.op == "If" || node.op == "Loop" || node.op == "Scan") continue;
    std::vector<const Array*> inputs;
    for (const ir::TensorValueId id : node.inputs) {
      const auto found = graph.constants.find(id);
      if (id != ir::kNoValue && found == graph.constants.end()) return "";  // not one node alone
      inputs.push_back(id == ir::kNoValue ? nullptr : &found->second);
    }
    const std::string problem = infer_node(node, inputs);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace kvern::eval
