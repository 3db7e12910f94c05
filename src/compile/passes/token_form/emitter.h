// Writes token form while the tensor graph is walked. A *base* is a value of token form (or a past
// cache of the file) that symbols refer to; linears and norms are written when somebody needs them,
// so that a part of a fused one is cut out of its weight instead of its result.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/ir/graph.h"
#include "compile/ir/ops.h"
#include "compile/passes/token_form/value.h"

namespace kvern::passes::token_form {

struct LinearBase {
  int32_t x = -1;                            // base
  std::shared_ptr<const Provenance> weight;  // [n, k] after turning
  std::shared_ptr<const Provenance> bias;    // [n]; may be null
};

struct NormBase {
  int32_t x = -1;
  bool layer_norm = false;
  double eps = 0;
  int64_t heads = 1;
  std::shared_ptr<const Provenance> gamma;  // null: ones
  std::shared_ptr<const Provenance> beta;
  double gamma_offset = 0;
};

struct Base {
  enum class Kind : uint8_t { kIds, kToken, kPast, kProduct };
  Kind kind = Kind::kToken;
  int64_t width = 1;   // features of a token
  std::string origin;  // the node of the file that made it, for messages
  ir::ValueId value;   // once written
  std::optional<LinearBase> linear;
  std::optional<NormBase> norm;
  // kPast: a state of the file.
  ir::TensorValueId past_input = -1;
  int64_t batch_axis = 0, length_axis = 0;
  std::vector<Shape> past_shapes;  // per world
};

// Features of a base, in an order, each with a factor: a row of a view.
struct Features {
  int32_t base = -1;
  std::vector<int32_t> index;
  std::vector<float> factor;  // one for all, or one per feature
  friend bool operator==(const Features&, const Features&) = default;
};

// Larger constants must lie in the file.
inline constexpr int64_t kMaxLiteralElements = 1 << 16;

// How a weight of floats lies in its file; nullopt for other elements.
std::optional<ir::SourceType> float_source(ir::ElementType type);

class Emitter {
 public:
  explicit Emitter(const ir::TensorModel& model) : model_(model) {}

  ir::Graph graph;
  std::vector<Base> bases;

  int32_t add_base(Base base);
  // A base that is written already.
  int32_t emitted(ir::ValueId value, int64_t width, const std::string& origin);
  // The value [tokens, width] of a base, written now if it was not.
  ir::ValueId value_of(int32_t base);
  // The same of some features: the base itself, rows of its weight, a part or a selection of it.
  // `hint` names it.
  int32_t pick(const Features& features, const std::string& hint);

  // The base times one number.
  int32_t scaled(int32_t base, float factor, const std::string& hint);

  ir::ValueId ids();
  ir::ValueId positions();
  // A value of one op, named after `hint`.
  ir::ValueId add(const ir::OpSchema& op, std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                  const std::string& hint);
  ir::ValueId add(const ir::OpSchema& op, std::vector<ir::ValueId> inputs,
                  const std::string& hint) {
    return add(op, std::move(inputs), op.default_attrs(), hint);
  }
  ir::ValueId literal(const std::string& hint, Shape shape, std::vector<double> values);

  // A slice of rows of a weight: [first, first + count) of its rows.
  struct Rows {
    int64_t first = 0;
    int64_t count = -1;  // -1: all
    // outer > 0: of each of `outer` equal periods, rows [first, first + count).
    int64_t outer = 0;
    friend auto operator<=>(const Rows&, const Rows&) = default;
  };
  // Dims of 1 say nothing of it, unless it is a `matrix`.
  ir::ValueId weight(const Provenance& from, const Rows& rows, const std::string& hint,
                     double offset = 0, bool matrix = false);

 private:
  int32_t source_index(const Provenance& from, size_t rank);
  // Codes with scales: true where the plan can take them from the file as they are.
  static bool stays_quantised(const Provenance& from);
  ir::Recipe quantised_recipe(const Provenance& from);
  ir::RecipeNode scale_node(const Provenance& from);
  ir::RecipeNode zero_node(const Provenance& from);
  int32_t raw_source(const ir::Array& array, ir::SourceType type, const Shape& shape);
  ir::ValueId quantised_weight(const Provenance& from, const Rows& rows, const Shape& shape,
                               const std::string& hint);
  std::string unique_weight_name(const std::string& hint) const;
  ir::ValueId write_linear(const Base& base, const Rows& rows, const std::string& hint);
  ir::ValueId write_norm(const Base& base);

  const ir::TensorModel& model_;
  ir::ValueId ids_, positions_;
  std::map<std::pair<int32_t, std::vector<int32_t>>, int32_t> picked_;
  std::map<std::pair<int32_t, float>, int32_t> scaled_;
  std::map<std::string, ir::ValueId> weights_;  // by source and rows
  std::map<std::string, int32_t> sources_;      // by initializer
};

}  // namespace kvern::passes::token_form
