#include "compile/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/fields.h"
#include "compile/tune/candidates.h"

namespace kvern::compile {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string_view::npos ? "" : line.substr(first);
}

// What a person may have meant: every part of a dotted name counts.
std::string similar(const plan::Plan& plan, std::string_view value) {
  std::set<std::string> found;
  const size_t dot = value.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? value : value.substr(dot + 1);
  for (const plan::Instruction& instruction : plan.program.instructions) {
    const std::string& source = instruction.source;
    if (source.find(value) != std::string::npos || source.ends_with(last)) found.insert(source);
    if (found.size() == 8) break;
  }
  if (found.empty()) return "`kvern inspect` lists them";
  return fmt::format("similar: {}", fmt::join(found, ", "));
}

void add_candidates(const plan::Instruction& instruction, std::string& out) {
  bool taken = false;
  out += "  implementations, best first, on this machine:\n";
  for (const tune::CandidateNote& note : tune::candidates(instruction)) {
    const bool now = !taken && note.reason.empty();
    taken |= now;
    const std::string verdict = !note.reason.empty() ? "no: " + note.reason
                                : now                ? "taken"
                                                     : "could, but an earlier one does";
    const bool preferred = note.name == instruction.tactic;
    out += fmt::format("    {:<36} {:<18} {}{}\n", note.name, note.numerics, verdict,
                       preferred ? " (the plan's tactic)" : "");
  }
}

void add_weight(const plan::Plan& plan, const plan::Weight& weight, std::string& out) {
  out += fmt::format("  weight {}: {}, packed {}, {} bytes\n", weight.name,
                     to_string(weight.format), weight.packing, weight.size_bytes);
  const std::string start = fmt::format("weight \"{}\"", weight.name);
  for (const std::string_view line : lines_of(plan.graph_text)) {
    if (trimmed(line).starts_with(start)) out += fmt::format("    {}\n", trimmed(line));
  }
}

// The weight of that name, or those that are made of the file's tensor of that name.
void add_weights_named(const plan::Plan& plan, std::string_view name, std::string& out) {
  const std::string quoted = fmt::format("\"{}\"", name);
  for (const plan::Weight& weight : plan.weights) {
    const std::string start = fmt::format("weight \"{}\"", weight.name);
    for (const std::string_view line : lines_of(plan.graph_text)) {
      if (!trimmed(line).starts_with(start)) continue;
      if (line.find(quoted) != std::string_view::npos) add_weight(plan, weight, out);
    }
  }
}

// The line of the graph that defines the value: "%layers.3.attn.q, %… = split(…)".
std::string_view graph_line(const plan::Plan& plan, std::string_view value) {
  const std::string name = fmt::format("%{}", value);
  for (const std::string_view line : lines_of(plan.graph_text)) {
    const std::string_view defined = trimmed(line).substr(0, trimmed(line).find(" = "));
    if (!defined.starts_with('%')) continue;
    for (size_t at = defined.find(name); at != std::string_view::npos;
         at = defined.find(name, at + 1)) {
      const size_t end = at + name.size();
      if (end == defined.size() || defined[end] == ',') return trimmed(line);
    }
  }
  return {};
}

}  // namespace

std::string explain(const plan::Plan& plan, std::string_view value) {
  std::string out;
  for (const plan::Instruction& instruction : plan.program.instructions) {
    if (instruction.source != value) continue;
    out += fmt::format("{}: {} {}\n", instruction.source, instruction.family,
                       tune::describe(instruction));
    add_candidates(instruction, out);
    for (const plan::OperandRef& operand : instruction.inputs) {
      if (operand.kind != plan::OperandKind::kWeight) continue;
      add_weight(plan, plan.weights[static_cast<size_t>(operand.index)], out);
    }
  }
  if (const std::string_view line = graph_line(plan, value); !line.empty()) {
    if (out.empty()) {
      out = fmt::format("{}: no instruction of its own: a view, a constant or an input\n", value);
    }
    out += fmt::format("  graph: {}\n", line);
  }
  if (out.empty()) add_weights_named(plan, value, out);
  if (!out.empty()) return out;
  throw Error(Code::kInvalidArgument,
              fmt::format("the plan's program computes no '{}'; {}", value, similar(plan, value)));
}

}  // namespace kvern::compile
