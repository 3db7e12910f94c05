// Products with weights: linear layers; and of two activations: attention's.
#include <fmt/format.h>

#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/provenance.h"
#include "compile/passes/token_form/reduce.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

std::shared_ptr<const Provenance> turned(const Provenance& from) {
  auto out = std::make_shared<Provenance>(from);
  out->transposed = !from.transposed;
  std::swap(out->shape[out->shape.size() - 2], out->shape.back());
  return out;
}

// A constant matrix, dims of 1 before it aside.
bool is_matrix(const Value& value) {
  const Shape& shape = value.shapes[0];
  for (size_t i = 0; i + 2 < shape.size(); ++i) {
    if (shape[i] != 1) return false;
  }
  return shape.size() >= 2;
}

// The input of the file whose rows they are; empty for activations.
std::string past_of(const Walk& walk, const View& x) {
  for (const ir::Array& array : x.elements) {
    for (const Symbol& s : symbols(array)) {
      if (s.base[0] < 0) continue;
      const Base& base = walk.emit.bases[static_cast<size_t>(s.base[0])];
      if (base.kind == Base::Kind::kPast) return walk.model.graph.name_of(base.past_input);
    }
  }
  return "";
}

Value weigh(const RuleCall& call, Value& x, Value& weight, bool transposed,
            std::vector<Shape> shapes) {
  const auto from = provenance_of(weight);
  if (from == nullptr || !is_matrix(weight)) {
    return opaque(call,
                  "it multiplies activations with a constant that is no matrix, or one that "
                  "depends on length or batch");
  }
  std::string why;
  const auto view = as_view(call.walk, x, &why);
  if (view == nullptr) return opaque(call, why);
  return make_linear(call, *view, transposed ? from : turned(*from), x.type, std::move(shapes));
}

}  // namespace

Value make_linear(const RuleCall& call, const View& x, std::shared_ptr<const Provenance> weight,
                  ir::ElementType type, std::vector<Shape> shapes) {
  Walk& walk = call.walk;
  std::string why;
  const std::optional<RowSet> rows = rows_of(walk, x, &why);
  if (const std::string past = rows ? "" : past_of(walk, x); !past.empty()) {
    return opaque(call, fmt::format("it multiplies the rows of '{}' by a weight: attention to "
                                    "another model's states (cross attention), or latent "
                                    "attention, whose cache is expanded by weights when it is "
                                    "read; neither is supported yet",
                                    past));
  }
  if (!rows) return opaque(call, why);
  if (rows->heads.size() != 1) {
    const Features& first = rows->heads[0];
    const bool scaled = first.base == rows->heads[1].base && first.index == rows->heads[1].index;
    return opaque(call, scaled
                            ? "its input is multiplied by what depends on the position of a token"
                            : fmt::format("its rows are {} different parts of a token: a linear "
                                          "layer over something else than features",
                                          rows->heads.size()));
  }
  Base base;
  base.origin = call.node.who();
  base.width = shapes[0].back();
  base.linear = LinearBase{materialise(walk, rows->heads[0], "part", call.node.who()),
                           std::move(weight), nullptr};
  const int64_t width = base.width;
  const int32_t id = walk.emit.add_base(std::move(base));
  std::vector<ir::Array> elements = row_elements(walk, *rows, shapes, width, id);
  return view_value(type, std::move(shapes), std::move(elements));
}

Values rule_matmul(const RuleCall& call) {
  Value a = call.in(0);
  Value b = call.in(1);
  if (call.node.i("transA", 0) != 0 || call.node.i("transBatchA", 0) != 0 ||
      call.node.i("transBatchB", 0) != 0) {
    return {opaque(call, "it turns its first operand")};
  }
  const bool turn_b = call.node.i("transB", 0) != 0;
  std::vector<Shape> shapes = inferred(call)[0].shapes;
  Value out;
  if (a.known() == nullptr && b.known() != nullptr) {
    if (a.get<Scores>() != nullptr)
      return {opaque(call, "it multiplies attention scores with a constant")};
    out = weigh(call, a, b, turn_b, std::move(shapes));
  } else if (a.known() != nullptr) {
    return {opaque(call, "it multiplies a constant with activations, which mixes tokens")};
  } else {
    if (turn_b) {
      std::vector<int64_t> perm;
      for (size_t i = 0; i < b.shapes[0].size(); ++i) perm.push_back(static_cast<int64_t>(i));
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      b = run_op(call, "Transpose", 13, {b}, {{"perm", perm}});
    }
    std::string why;
    const auto right = as_view(call.walk, b, &why);
    if (right == nullptr) return {opaque(call, why)};
    if (const Scores* scores = a.get<Scores>()) {
      if (scores->is_nan_test) {
        return {opaque(call, "it multiplies a test for NaN with a value")};
      }
      if (scores->sink_column) {
        return {opaque(call, "the column of its sinks is multiplied with a value")};
      }
      if (!scores->normalised)
        return {opaque(call, "it multiplies attention scores before softmax")};
      return {attend(call.walk, call.node, a, *right, b.type, std::move(shapes))};
    }
    const auto left = as_view(call.walk, a, &why);
    if (left == nullptr) return {opaque(call, why)};
    out = make_scores(call.walk, call.node, *left, *right, std::move(shapes));
  }
  const double alpha = call.node.f("alpha", 1.0);
  if (alpha == 1.0 || out.is_opaque()) return {std::move(out)};
  Value by = known(ir::ElementType::kFloat, {ir::Array::scalar_f32(static_cast<float>(alpha))});
  by.shapes.resize(call.walk.worlds.size(), by.shapes[0]);
  return {run_op(call, "Mul", 14, {out, by})};
}

Values rule_gemm(const RuleCall& call) {
  Value& a = call.in(0);
  Value& b = call.in(1);
  if (call.node.i("transA", 0) != 0 || call.node.f("alpha", 1) != 1 ||
      call.node.f("beta", 1) != 1 || a.known() != nullptr || b.known() == nullptr) {
    return {opaque(call, "only x W + b is known of it, with alpha and beta 1")};
  }
  Value out = weigh(call, a, b, call.node.i("transB", 0) != 0, inferred(call)[0].shapes);
  if (!call.has(2) || out.is_opaque()) return {std::move(out)};
  return {add_values(call, out, call.in(2))};
}

}  // namespace kvern::passes::token_form
