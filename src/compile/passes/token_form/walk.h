// The walk over a tensor graph: one Value per value of the graph, one rule per op.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "compile/eval/tensor/tensor_eval.h"
#include "compile/passes/token_form/emitter.h"
#include "compile/passes/token_form/token_form.h"
#include "compile/passes/token_form/value.h"

namespace kvern::passes::token_form {

// One K/V store: what an attention appends and reads, for those that read it too, and for the
// outputs of the file that return it.
struct CacheSide {
  int32_t past = -1;        // base; -1: the file has no cache
  Features fresh;           // of the rows that a new token appends, all KV heads in order
  double fresh_factor = 1;  // attention reads these times this …
  double past_factor = 1;   // … and the cached rows times this
  // Per KV head and element: place in a row of the past (without batch and position).
  std::vector<std::vector<int64_t>> place;
  // Per layout world: symbols [kv head][token][dim] of the rows that join the cache.
  std::vector<std::vector<Symbol>> rows;
  int64_t dim = 0;
};
struct SlotState {
  CacheSide k, v;
  std::vector<double> frequencies;
  bool interleaved = false;
  ir::ValueId kv;
  int64_t kv_heads = 0;
};

// What an output that returns a cache holds: read at once, because the symbols of all static caches
// together are far more than those of one.
struct ReturnedCache {
  struct Fresh {
    int64_t position = 0;
    int64_t token = 0;  // batch * tokens + token
    int64_t place = 0;  // in a row of the past
    Symbol symbol;
  };
  int32_t past = -1;          // base
  std::vector<Shape> shapes;  // per world
  std::vector<Fresh> fresh;   // of world 0: the rows that new tokens add, before the problem
  std::string problem;        // with any other row
};

// Tables of scale * cos and sin of position * frequency, rounded by the file.
struct Turn {
  std::vector<double> frequencies;
  double scale = 1;
  ir::ElementType floats = ir::ElementType::kFloat;  // that cos and sin lie in
  ir::ElementType angles = ir::ElementType::kFloat;  // that their product is computed in
};

struct Walk {
  const ir::TensorModel& model;
  const TokenFormOptions& options;
  std::vector<World> worlds;  // layout worlds first
  size_t num_layout = 0;
  // The world that decides where the graph chooses tables by length.
  size_t deciding = 0;
  Emitter emit;
  TokenForm out;
  // Outputs of the graph that return caches and that no node reads any more.
  std::map<ir::TensorValueId, ReturnedCache> returned;
  std::vector<SlotState> slots;
  std::vector<std::vector<double>> frequency_candidates;  // constants that may be inv_freq
  // By which of them far tokens of a base are turned.
  std::map<int32_t, std::vector<std::vector<double>>> turned_by;
  std::vector<Turn> turns;  // that tables of the file were found to hold
  std::map<std::vector<double>, std::pair<ir::ValueId, ir::ValueId>> angles;

  Walk(const ir::TensorModel& m, const TokenFormOptions& o) : model(m), options(o), emit(m) {}
};

struct RuleCall {
  Walk& walk;
  const ir::TensorNode& node;
  std::span<Value* const> inputs;  // nullptr where left out

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  Value& in(size_t i) const;
};
using Rule = std::vector<Value> (*)(const RuleCall& call);

// One line per op that may read activations.
Rule find_rule(const ir::TensorNode& node);

// The first output of a node of constants.
Value fold_node(const RuleCall& call);
// Reads an output that returns a cache and lets go of its elements; others stay.
void settle_output(Walk& walk, ir::TensorValueId id, Value& value);
// Walks a graph whose inputs and captured values are in `values` (one per value of the graph).
void walk_graph(Walk& walk, const ir::TensorGraph& graph, std::vector<Value>& values);

// --- making values ---
Value opaque(const std::string& reason);
Value opaque(const RuleCall& call, const std::string& problem);
Value known(ir::ElementType type, std::vector<ir::Array> arrays);
Value view_value(ir::ElementType type, std::vector<Shape> shapes, std::vector<ir::Array> elements);
Value scores_value(ir::ElementType type, std::vector<Shape> shapes, Scores scores);
// Shapes and types of the node's outputs in every world.
std::vector<Value> inferred(const RuleCall& call);
// Runs the node in the layout worlds on the symbols of its inputs that are not constant.
std::vector<ir::Array> run_layout(const RuleCall& call, size_t world);
// The symbols of a constant.
ir::Array constant_symbols(const ir::Array& array);

// --- reading values ---
// The one number of a constant that is the same in all worlds.
std::optional<double> scalar_of(Value& value);
// True for a constant whose only dim above 1 is the last one, alike in all worlds.
bool is_feature_vector(Value& value);

// A view: of a function, what it writes. nullptr (and `why`) for anything else.
std::shared_ptr<const View> as_view(Walk& walk, Value& value, std::string* why);

// Rows of the last axis, each of one token.
struct RowSet {
  std::vector<Features> heads;                    // distinct ones, in order of their features
  std::vector<std::vector<int32_t>> token, head;  // per layout world, per row
};
std::optional<RowSet> rows_of(const Walk& walk, const View& view, std::string* why);

// All elements of each token, in the order of the tensor.
struct TokenSet {
  Features features;
  std::vector<std::vector<int32_t>> place;  // per layout world, per element: token * width + k
};
std::optional<TokenSet> tokens_of(const Walk& walk, const View& view, std::string* why);
// Per layout world, of as many elements as the set's view: those of `base` at their places.
std::vector<ir::Array> placed(const TokenSet& set, std::span<const Shape> shapes, int32_t base);
// True where both have as many elements in every world.
bool same_counts(std::span<const Shape> a, std::span<const Shape> b);

// The base [tokens, n] of these features with their factors applied.
int32_t materialise(Walk& walk, const Features& features, const std::string& hint,
                    const std::string& origin);

}  // namespace kvern::passes::token_form
