#include "compile/generic_share.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

GenericShare generic_share(const lower::Lowered& lowered, const plan::KvLayout& layout,
                           int64_t context_tokens) {
  GenericShare out;
  auto all = static_cast<double>(kv_bytes(layout, context_tokens));
  for (const plan::Instruction& instruction : lowered.program.instructions) {
    const auto bytes = static_cast<double>(bytes_moved(lowered, instruction));
    all += bytes;
    if (is_generic(instruction.family)) {
      out.lines.push_back({instruction.source, instruction.family, bytes});
    }
  }
  for (GenericShare::Line& line : out.lines) {
    line.share /= std::max(all, 1.0);
    out.total += line.share;
  }
  std::stable_sort(out.lines.begin(), out.lines.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return out;
}

void warn_of_generic(const GenericShare& share, std::vector<std::string>& warnings) {
  if (share.total <= kWarnAbove) return;
  std::string names;
  for (size_t i = 0; i < std::min(share.lines.size(), kNamed); ++i) {
    const GenericShare::Line& line = share.lines[i];
    names += fmt::format("{}{} ({}, {:.1f} %)", i == 0 ? "" : ", ", line.source, line.family,
                         line.share * 100);
  }
  if (share.lines.size() > kNamed)
    names += fmt::format(" and {} more", share.lines.size() - kNamed);
  warnings.push_back(
      fmt::format("ops without a kernel of their own take {:.0f} % of a decode step (estimated by "
                  "bytes): {}",
                  share.total * 100, names));
}

}  // namespace kvern::compile
