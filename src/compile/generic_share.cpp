#include "compile/generic_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kvern::compile {
namespace {

constexpr double kWarnAbove = 0.10;
constexpr size_t kNamed = 6;  // values that a warning names

bool is_generic(const std::string& family) {
  return family == "map" || family == "select" || family == "row_reduce";
}

int64_t kv_bytes(const plan::KvLayout& layout, int64_t context_tokens) {
  int64_t bytes = 0;
  for (const plan::KvGroup& group : layout.groups()) {
    const int64_t held = group.window_tokens > 0
                             ? std::min<int64_t>(group.window_tokens, context_tokens)
                             : context_tokens;
    bytes += group.page_bytes / group.page_tokens * held;
  }
  return bytes;
}

// Of one row.
int64_t bytes_moved(const lower::Lowered& lowered, const plan::Instruction& instruction) {
  int64_t bytes = 0;
  const auto add = [&](const plan::OperandRef& operand) {
    const auto at = static_cast<size_t>(operand.index);
    if (operand.kind == plan::OperandKind::kBuffer) {
      bytes += lowered.program.buffers[at].row_bytes;
    } else if (operand.kind == plan::OperandKind::kWeight) {
      const plan::Weight& weight = lowered.weights[at];
      const int64_t rows = instruction.family == "embedding" ? weight.shape[0] : 1;
      bytes += static_cast<int64_t>(weight.size_bytes) / std::max<int64_t>(rows, 1);
    }
  };
  for (const plan::OperandRef& operand : instruction.inputs) add(operand);
  for (const plan::OperandRef& operand : instruction.outputs) add(operand);
  return bytes;
}

// Costs of all instructions, in any unit, become shares of their sum and `others`.
GenericShare shares(const plan::Program& program, const std::vector<double>& costs, double others) {
  GenericShare out;
  double all = others;
  for (size_t i = 0; i < costs.size(); ++i) {
    const plan::Instruction& instruction = program.instructions[i];
    all += costs[i];
    if (is_generic(instruction.family)) {
      out.lines.push_back({instruction.source, instruction.family, "", costs[i]});
    }
  }
  for (GenericShare::Line& line : out.lines) {
    line.share /= std::max(all, 1e-9);
    out.total += line.share;
  }
  std::stable_sort(out.lines.begin(), out.lines.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return out;
}

}  // namespace

GenericShare generic_share(const lower::Lowered& lowered, const plan::KvLayout& layout,
                           int64_t context_tokens) {
  std::vector<double> bytes;
  for (const plan::Instruction& instruction : lowered.program.instructions) {
    bytes.push_back(static_cast<double>(bytes_moved(lowered, instruction)));
  }
  return shares(lowered.program, bytes, static_cast<double>(kv_bytes(layout, context_tokens)));
}

GenericShare measured_share(const plan::Program& program, const std::vector<double>& times_us) {
  GenericShare out = shares(program, times_us, 0);
  out.measured = true;
  return out;
}

void name_nodes(const ir::Graph& graph, GenericShare& share) {
  std::map<std::string, std::string> nodes;  // by value
  for (const ir::Node& node : graph.nodes()) {
    if (!node.outputs.empty()) nodes[graph.value(node.outputs[0]).name] = node.source_name;
  }
  for (GenericShare::Line& line : share.lines) {
    const auto found = nodes.find(line.source);
    if (found != nodes.end()) line.node = found->second;
  }
}

std::string generic_warning(const GenericShare& share) {
  if (share.total <= kWarnAbove) return "";
  std::string values;
  for (size_t i = 0; i < std::min(share.lines.size(), kNamed); ++i) {
    const GenericShare::Line& line = share.lines[i];
    values +=
        fmt::format("{}{} ({}, {:.1f} %)", i == 0 ? "" : ", ",
                    line.node.empty() ? line.source : line.node, line.family, line.share * 100);
  }
  if (share.lines.size() > kNamed) {
    values += fmt::format(" and {} more", share.lines.size() - kNamed);
  }
  return fmt::format("ops without a kernel of their own take {:.0f} % of a decode step ({}): {}",
                     share.total * 100, share.measured ? "measured here" : "estimated by bytes",
                     values);
}

}  // namespace kvern::compile
