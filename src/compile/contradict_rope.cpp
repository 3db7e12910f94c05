#include "compile/contradict_rope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compile/eval/node_eval.h"
#include "compile/ir/ops.h"

namespace kvern::compile {
namespace {

// Tables of half floats are this far off; another base is farther.
constexpr double kTolerance = 5e-3;

using Frequencies = std::vector<double>;

// The literals that the graph's angles are made with, largest first, each set once.
std::vector<Frequencies> frequencies_of(const ir::Graph& graph) {
  std::vector<Frequencies> out;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != &ir::ops::kRopeAngles) continue;
    const ir::Node& from = graph.nodes()[graph.producer(node.inputs.at(1))];
    if (from.op != &ir::ops::kWeight) continue;
    const int index = graph.weight_index(from.attrs.as<ir::WeightAttrs>().name);
    if (index < 0) continue;
    const auto& nodes = graph.weights[static_cast<size_t>(index)].recipe.nodes;
    if (nodes.size() != 1 || nodes[0].op != ir::RecipeOp::kLiteral) continue;
    Frequencies values = nodes[0].values;
    std::sort(values.begin(), values.end(), std::greater<>());
    if (std::find(out.begin(), out.end(), values) == out.end()) out.push_back(std::move(values));
  }
  return out;
}

// Of as many pairs as the graph turns: families differ in the part of a head. Empty where the
// configuration lists factors for another number of pairs.
Frequencies wanted(const import::ConfigRope& rope, size_t pairs) {
  ir::Node node;
  ir::RopeFrequencyAttrs attrs = rope.attrs;
  attrs.rotary_dim = static_cast<int64_t>(pairs) * 2;
  node.attrs = ir::Attrs::of(attrs);
  std::vector<const eval::HostTensor*> inputs;
  eval::HostTensor divisors;
  if (!rope.factors.empty()) {
    if (rope.factors.size() != pairs) return {};
    divisors.shape = {static_cast<int64_t>(pairs)};
    divisors.f32.assign(rope.factors.begin(), rope.factors.end());
    inputs.push_back(&divisors);
  }
  const std::vector<float> made = eval::eval_rope_frequencies(node, inputs).at(0).f32;
  Frequencies out(made.begin(), made.end());
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

// The first pair in which they differ; nullopt: alike.
std::optional<size_t> difference(const Frequencies& a, const Frequencies& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::abs(a[i] - b[i]) > kTolerance * std::abs(b[i])) return i;
  }
  return std::nullopt;
}

}  // namespace

std::vector<OtherRope> other_ropes(const import::ConfigFacts& config, const ir::Graph& graph) {
  std::vector<OtherRope> out;
  if (config.ropes.empty()) return out;
  std::vector<std::string> texts;
  for (const import::ConfigRope& rope : config.ropes) texts.push_back(rope.text);
  for (const Frequencies& found : frequencies_of(graph)) {
    bool fits = false;
    Frequencies first;
    for (const import::ConfigRope& rope : config.ropes) {
      const Frequencies frequencies = wanted(rope, found.size());
      fits = fits || frequencies.empty() || !difference(found, frequencies);
      if (first.empty()) first = frequencies;
    }
    if (fits) continue;
    const size_t pair = difference(found, first).value_or(0);
    out.push_back({fmt::format("{}", fmt::join(texts, " and ")),
                   fmt::format("the graph turns by other frequencies (pair {} of {} by {:.4g} a "
                               "token and not by {:.4g})",
                               pair, found.size(), found[pair], first[pair])});
  }
  return out;
}

}  // namespace kvern::compile
