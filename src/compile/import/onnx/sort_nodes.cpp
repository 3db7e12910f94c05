#include <fmt/format.h>

#include <functional>
#include <queue>

#include "compile/import/onnx/graph_builder.h"
#include "compile/import/onnx/refuse.h"

namespace kvern::import::onnx {
namespace {

constexpr size_t kNone = SIZE_MAX;

// Values that a node reads, those that its bodies capture included.
template <class Visit>
void for_each_read(const ir::TensorNode& node, Visit visit) {
  for (const ir::TensorValueId id : node.inputs) {
    if (id != ir::kNoValue) visit(id);
  }
  for (const auto& [name, attr] : node.attrs) {
    const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr);
    if (body == nullptr) continue;
    for (const auto& [outer, own] : (*body)->captures) visit(outer);
  }
}

std::vector<size_t> producers_of(const ir::TensorGraph& graph) {
  std::vector<size_t> out(graph.values.size(), kNone);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ir::TensorValueId id : graph.nodes[i].outputs) {
      if (id != ir::kNoValue) out[static_cast<size_t>(id)] = i;
    }
  }
  return out;
}

bool is_sorted(const ir::TensorGraph& graph, const std::vector<size_t>& producers) {
  bool sorted = true;
  for (size_t i = 0; i < graph.nodes.size() && sorted; ++i) {
    for_each_read(graph.nodes[i], [&](ir::TensorValueId id) {
      const size_t from = producers[static_cast<size_t>(id)];
      sorted = sorted && (from == kNone || from < i);
    });
  }
  return sorted;
}

// Follows readers back through nodes that wait for each other until one comes again.
[[noreturn]] void refuse_cycle(const ir::TensorGraph& graph, const std::vector<size_t>& producers,
                               const std::vector<size_t>& waiting) {
  size_t at = 0;
  while (waiting[at] == 0) ++at;
  std::vector<size_t> path;
  std::vector<bool> seen(graph.nodes.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    size_t next = kNone;
    for_each_read(graph.nodes[at], [&](ir::TensorValueId id) {
      const size_t from = producers[static_cast<size_t>(id)];
      if (from != kNone && waiting[from] != 0) next = from;
    });
    at = next;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::vector<std::string> names;
  constexpr size_t kMostNamed = 6;
  for (size_t i = 0; i < std::min(path.size(), kMostNamed); ++i) {
    const ir::TensorNode& node = graph.nodes[path[i]];
    names.push_back(fmt::format("'{}' ({})", shown(node.name), shown(node.op)));
  }
  fail(fmt::format("the graph is cyclic: {} nodes wait for each other's results: {}{}", path.size(),
                   fmt::join(names, ", "), path.size() > kMostNamed ? ", …" : ""));
}

}  // namespace

void sort_nodes(ir::TensorGraph& graph) {
  const std::vector<size_t> producers = producers_of(graph);
  if (is_sorted(graph, producers)) return;
  std::vector<size_t> waiting(graph.nodes.size(), 0);
  std::vector<std::vector<size_t>> readers(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for_each_read(graph.nodes[i], [&](ir::TensorValueId id) {
      const size_t from = producers[static_cast<size_t>(id)];
      if (from == kNone) return;
      ++waiting[i];
      readers[from].push_back(i);
    });
  }
  // The earliest ready node of the file goes first.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<ir::TensorNode> sorted;
  sorted.reserve(graph.nodes.size());
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t at = ready.top();
    ready.pop();
    order.push_back(at);
    for (const size_t reader : readers[at]) {
      if (--waiting[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() != graph.nodes.size()) refuse_cycle(graph, producers, waiting);
  for (const size_t at : order) sorted.push_back(std::move(graph.nodes[at]));
  graph.nodes = std::move(sorted);
}

}  // namespace kvern::import::onnx
