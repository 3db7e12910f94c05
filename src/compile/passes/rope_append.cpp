#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compile/passes/match.h"
#include "compile/passes/passes.h"

namespace kvern::passes {
namespace {

// The parts of one attention's rotation and append, as indices of nodes.
struct Match {
  size_t append = 0;
  size_t rope_q = 0;
  size_t rope_k = 0;
};

// Matches around the kv_append at `append`, or says why not; "" where nothing asks for a fusion.
std::optional<Match> match(const ir::Graph& graph, size_t append, std::string& why_not) {
  const ir::Node& node = graph.nodes()[append];
  const auto& a = node.attrs.as<ir::KvAppendAttrs>();
  const size_t rope_k = graph.producer(node.inputs[0]);
  if (graph.nodes()[rope_k].op != &ir::ops::kRope) return {};
  const std::vector<size_t> readers = graph.users(node.outputs[0]);
  if (readers.size() != 1) {
    why_not = fmt::format("{} attentions read the slot", readers.size());
    return {};
  }
  const ir::ValueId q = graph.nodes()[readers[0]].inputs[0];
  const size_t rope_q = graph.producer(q);
  if (graph.nodes()[rope_q].op != &ir::ops::kRope) {
    why_not = "k is turned and q is not";
    return {};
  }
  if (!has_one_use(graph, q) || !has_one_use(graph, node.inputs[0])) {
    why_not = "turned q or k has other readers";
    return {};
  }
  const ir::Node& turn_q = graph.nodes()[rope_q];
  const ir::Node& turn_k = graph.nodes()[rope_k];
  const auto& attrs_q = turn_q.attrs.as<ir::RopeAttrs>();
  const auto& attrs_k = turn_k.attrs.as<ir::RopeAttrs>();
  if (turn_q.inputs[1] != turn_k.inputs[1] || turn_q.inputs[2] != turn_k.inputs[2] ||
      attrs_q.interleaved != attrs_k.interleaved) {
    why_not = "q and k are turned differently";
    return {};
  }
  if (attrs_q.head_dim != a.dim_k || a.dim_v != a.dim_k || attrs_k.heads != a.kv_heads) {
    why_not = "heads of q, k and v differ in size";
    return {};
  }
  return Match{append, rope_q, rope_k};
}

void fuse(ir::Graph& graph, const Match& m) {
  const ir::Node append = graph.nodes()[m.append];
  const ir::Node rope_q = graph.nodes()[m.rope_q];
  const ir::Node rope_k = graph.nodes()[m.rope_k];
  const auto& kv = append.attrs.as<ir::KvAppendAttrs>();
  const auto& q = rope_q.attrs.as<ir::RopeAttrs>();
  const ir::QkvRopeAppendAttrs attrs{kv.slot, q.heads, kv.kv_heads, q.head_dim, q.interleaved};
  const size_t index = std::max({m.append, m.rope_q, m.rope_k}) + 1;
  const std::vector<ir::ValueId> fused = graph.insert(
      index, ir::ops::kQkvRopeAppend,
      {rope_q.inputs[0], rope_k.inputs[0], append.inputs[1], rope_q.inputs[1], rope_q.inputs[2]},
      ir::Attrs::of(attrs), graph.value(append.outputs[0]).name);
  exchange(graph, {{rope_q.outputs[0], fused[0]}, {append.outputs[0], fused[1]}},
           {m.append, m.rope_q, m.rope_k});
}

}  // namespace

PassReport rope_append(ir::Graph& graph) {
  PassReport report;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op != &ir::ops::kKvAppend) continue;
    std::string why_not;
    const std::optional<Match> found = match(graph, i, why_not);
    if (found) {
      fuse(graph, *found);
      i -= found->rope_q < i ? 3 : 2;  // nodes up to here that are gone
      ++report.num_changes;
    } else if (!why_not.empty()) {
      report.notes.push_back(fmt::format("{}: rope and append not fused: {}",
                                         graph.value(graph.nodes()[i].outputs[0]).name, why_not));
    }
  }
  return report;
}

}  // namespace kvern::passes
