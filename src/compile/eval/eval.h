// Runs any graph on plain implementations in f32: the oracle for folding, passes and imports.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/ir/graph.h"

namespace kvern::eval {

// A dense value: f32 data, or i32 data for ids and positions.
struct HostTensor {
  Shape shape;
  std::vector<float> f32;
  std::vector<int32_t> i32;
};

// Where weights' values come from. Called once per weight and evaluation.
class WeightProvider {
 public:
  virtual ~WeightProvider() = default;
  virtual HostTensor load(const ir::Graph& graph, const ir::Weight& weight) = 0;
};

// Deterministic pseudo-random weights that depend on shape and on the *sources* of the recipe only,
// so that a graph before and after a pass that concatenates weights sees the same numbers. kLiteral
// gives its own values.
class RandomWeights final : public WeightProvider {
 public:
  explicit RandomWeights(uint64_t seed) : seed_(seed) {}
  HostTensor load(const ir::Graph& graph, const ir::Weight& weight) override;

 private:
  uint64_t seed_;
};

// K and V of one sequence by slot, f32, kept between calls: [tokens, kv_heads * dim].
struct KvState {
  std::map<int64_t, HostTensor> k;
  std::map<int64_t, HostTensor> v;
};

// Evaluates a graph in token form for one sequence whose earlier tokens are in `kv`. Inputs by name
// ("ids", "positions", "wanted"); result: the outputs by name. Throws Error(kUnsupported) naming an
// op without an evaluation, and Error(kInvalidArgument) for inputs that are missing or of a wrong
// shape.
std::map<std::string, HostTensor> run(const ir::Graph& graph,
                                      const std::map<std::string, HostTensor>& inputs,
                                      WeightProvider& weights, KvState& kv);

// The value of one node from constant inputs, for folding.
std::vector<HostTensor> run_node(const ir::Node& node, const std::vector<HostTensor>& inputs);

}  // namespace kvern::eval
