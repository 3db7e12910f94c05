#include "compile/passes/token_form/emitter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "compile/passes/token_form/quant_weight.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {

namespace ops = ir::ops;
using ir::Attrs;
using ir::ValueId;

namespace {

// Dims of 1 say nothing of a weight.
Shape squeezed(const Shape& shape, size_t min_rank) {
  Shape out;
  size_t droppable = shape.size() > min_rank ? shape.size() - min_rank : 0;
  for (const int64_t dim : shape) {
    if (dim == 1 && droppable > 0) {
      --droppable;
      continue;
    }
    out.push_back(dim);
  }
  return out;
}

bool is_run(const std::vector<int32_t>& index) {
  for (size_t i = 1; i < index.size(); ++i) {
    if (index[i] != index[0] + static_cast<int32_t>(i)) return false;
  }
  return true;
}

// Of each of `outer` equal periods of `width` features the same run; nullopt for anything else.
std::optional<Emitter::Rows> periodic(const std::vector<int32_t>& index, int64_t width) {
  size_t run = 1;
  while (run < index.size() && index[run] == index[run - 1] + 1) ++run;
  if (index.size() % run != 0) return std::nullopt;
  const auto outer = static_cast<int64_t>(index.size() / run);
  if (outer < 2 || width % outer != 0) return std::nullopt;
  const int64_t period = width / outer;
  for (size_t i = 0; i < index.size(); ++i) {
    const auto place = static_cast<int64_t>(i / run) * period + static_cast<int64_t>(i % run);
    if (index[i] != index[0] + place) return std::nullopt;
  }
  if (index[0] + static_cast<int64_t>(run) > period) return std::nullopt;
  return Emitter::Rows{index[0], static_cast<int64_t>(run), outer};
}

void add_rows(const Emitter::Rows& rows, ir::Recipe& recipe) {
  if (rows.count < 0) return;
  ir::RecipeNode step;
  step.inputs = {static_cast<int32_t>(recipe.nodes.size()) - 1};
  if (rows.outer == 0) {
    step.op = ir::RecipeOp::kSliceRows;
    step.first_row = rows.first;
    step.num_rows = rows.count;
    recipe.nodes.push_back(std::move(step));
    return;
  }
  step.op = ir::RecipeOp::kStridedRows;
  step.heads = static_cast<int32_t>(rows.outer);
  step.first_row = rows.first;
  step.num_rows = rows.count;
  recipe.nodes.push_back(std::move(step));
}

// The file's own name of a node, out of TensorNode::who().
std::string source_name(const std::string& origin) {
  const size_t begin = origin.find('\''), end = origin.find('\'', begin + 1);
  return end == std::string::npos ? origin : origin.substr(begin + 1, end - begin - 1);
}

}  // namespace

std::optional<ir::SourceType> float_source(ir::ElementType type) {
  switch (type) {
    case ir::ElementType::kFloat:
      return ir::SourceType::kF32;
    case ir::ElementType::kFloat16:
      return ir::SourceType::kF16;
    case ir::ElementType::kBfloat16:
      return ir::SourceType::kBf16;
    default:
      return std::nullopt;
  }
}

int32_t Emitter::add_base(Base base) {
  bases.push_back(std::move(base));
  return static_cast<int32_t>(bases.size()) - 1;
}

int32_t Emitter::emitted(ValueId value, int64_t width, const std::string& origin) {
  Base base;
  base.value = value;
  base.width = width;
  base.origin = origin;
  return add_base(std::move(base));
}

ValueId Emitter::add(const ir::OpSchema& op, std::vector<ValueId> inputs, Attrs attrs,
                     const std::string& hint) {
  return graph.add1(op, std::move(inputs), std::move(attrs), hint);
}

int32_t Emitter::scaled(int32_t base, float factor, const std::string& hint) {
  if (factor == 1.0f) return base;
  const auto [at, is_new] = scaled_.emplace(std::pair(base, factor), -1);
  if (!is_new) return at->second;
  const Base from = bases.at(static_cast<size_t>(base));
  const ir::FactorAttrs by{factor};
  const ValueId y = add(ops::kScale, {value_of(base)}, Attrs::of(by), hint);
  return at->second = emitted(y, from.width, from.origin);
}

ValueId Emitter::ids() {
  if (!ids_.valid()) {
    ir::InputAttrs attrs;
    attrs.name = "ids";
    ids_ = graph.add1(ops::kInput, {}, Attrs::of(attrs), "ids");
  }
  return ids_;
}

ValueId Emitter::positions() {
  if (!positions_.valid()) {
    ir::InputAttrs attrs;
    attrs.name = "positions";
    positions_ = graph.add1(ops::kInput, {}, Attrs::of(attrs), "positions");
  }
  return positions_;
}

std::string Emitter::unique_weight_name(const std::string& hint) const {
  if (graph.weight_index(hint) < 0) return hint;
  for (int i = 2;; ++i) {
    std::string name = fmt::format("{}_{}", hint, i);
    if (graph.weight_index(name) < 0) return name;
  }
}

ValueId Emitter::literal(const std::string& hint, Shape shape, std::vector<double> values) {
  if (static_cast<int64_t>(values.size()) > kMaxLiteralElements) {
    throw Error(
        Code::kUnsupported,
        fmt::format("onnx: '{}' of shape {} is computed by the graph from its constants and "
                    "too large to be written into the plan's graph; export it as one "
                    "initializer (constant folding at export does that)",
                    hint, to_string(shape)));
  }
  ir::RecipeNode node;
  node.op = ir::RecipeOp::kLiteral;
  node.values = std::move(values);
  const std::string name = unique_weight_name(hint);
  graph.weights.push_back({name, shape, {{std::move(node)}}, {}});
  return graph.add1(ops::kWeight, {}, Attrs::of(ir::WeightAttrs{name, shape}), name);
}

int32_t Emitter::source_index(const Provenance& from, size_t rank) {
  const ir::ArrayOrigin& origin = *from.source.origin();
  const Shape shape = squeezed(from.source.shape(), rank);
  const std::string key =
      fmt::format("{}@{}:{}{}", origin.name, origin.file, origin.offset, to_string(shape));
  const auto found = sources_.find(key);
  if (found != sources_.end()) return found->second;
  ir::WeightSource source;
  source.name = origin.name;
  source.file = origin.file;
  source.offset = origin.offset;
  source.bytes = from.source.bytes().size();
  source.type = *float_source(from.source.type());
  source.shape = shape;
  const auto index = static_cast<int32_t>(graph.sources.size());
  graph.sources.push_back(std::move(source));
  sources_.emplace(key, index);
  return index;
}

ValueId Emitter::weight(const Provenance& from, const Rows& rows, const std::string& hint,
                        double offset, bool matrix) {
  const bool has_rows = from.shape.size() > 1 && from.shape[0] != 1;
  const Shape whole = squeezed(from.shape, matrix || has_rows ? 2 : 1);
  Shape shape = whole;
  if (rows.count >= 0) shape[0] = rows.outer > 0 ? rows.outer * rows.count : rows.count;
  const bool in_file =
      !from.scales && from.source.origin().has_value() && float_source(from.source.type());
  if (stays_quantised(from)) return quantised_weight(from, rows, shape, hint);
  if (!in_file) {
    std::vector<float> all = from.scales ? dequantised(from) : from.source.to_f32();
    if (from.transposed) {
      const int64_t n = whole[0], k = whole[1];
      std::vector<float> turned(all.size());
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          turned[static_cast<size_t>(i * k + j)] = all[static_cast<size_t>(j * n + i)];
        }
      }
      all = std::move(turned);
    }
    const int64_t row = whole.size() > 1 ? whole[1] : 1;
    const int64_t outer = std::max<int64_t>(rows.outer, 1);
    const int64_t count = rows.count < 0 ? whole[0] : rows.count;
    const int64_t period = whole[0] / outer;
    std::vector<double> values;
    for (int64_t o = 0; o < outer; ++o) {
      const int64_t first = (o * period + rows.first) * row;
      for (int64_t i = 0; i < count * row; ++i) {
        values.push_back(all[static_cast<size_t>(first + i)] + offset);
      }
    }
    return literal(hint, shape, std::move(values));
  }
  // Turned or not, what counts of a matrix are two dims, of a vector one.
  const int32_t source = source_index(from, matrix || squeezed(from.shape, 1).size() > 1 ? 2 : 1);
  const std::string key = fmt::format("{}/{}/{}/{}/{}/{}/{}", source, from.transposed, rows.first,
                                      rows.count, rows.outer, offset, shape.size());
  const auto found = weights_.find(key);
  if (found != weights_.end()) return found->second;
  ir::Recipe recipe;
  ir::RecipeNode leaf;
  leaf.source = source;
  recipe.nodes.push_back(leaf);
  if (from.transposed) {
    ir::RecipeNode turn;
    turn.op = ir::RecipeOp::kTranspose;
    turn.inputs = {0};
    recipe.nodes.push_back(turn);
  }
  add_rows(rows, recipe);
  if (offset != 0) {
    ir::RecipeNode more;
    more.op = ir::RecipeOp::kOffset;
    more.inputs = {static_cast<int32_t>(recipe.nodes.size()) - 1};
    more.values = {offset};
    recipe.nodes.push_back(more);
  }
  const std::string name = unique_weight_name(hint);
  const QuantFormat storage =
      shape.size() == 1
          ? QuantFormat{}
          : ir::source_type_info(graph.sources[static_cast<size_t>(source)].type).exact;
  graph.weights.push_back({name, shape, std::move(recipe), storage});
  const ValueId made = graph.add1(ops::kWeight, {}, Attrs::of(ir::WeightAttrs{name, shape}), name);
  weights_.emplace(key, made);
  return made;
}

ValueId Emitter::quantised_weight(const Provenance& from, const Rows& rows, const Shape& shape,
                                  const std::string& hint) {
  ir::Recipe recipe = quantised_recipe(from);
  add_rows(rows, recipe);
  std::string key = "quantised";
  for (const ir::RecipeNode& node : recipe.nodes) {
    key += fmt::format("/{} {} {} {} {} {} {} {}", static_cast<int>(node.op), node.source,
                       node.heads, node.first_row, node.num_rows, node.transposed, node.num_cols,
                       fmt::join(node.values, ","));
  }
  const auto found = weights_.find(key);
  if (found != weights_.end()) return found->second;
  const std::string name = unique_weight_name(hint);
  graph.weights.push_back({name, shape, std::move(recipe), {}});
  const ValueId made = graph.add1(ops::kWeight, {}, Attrs::of(ir::WeightAttrs{name, shape}), name);
  weights_.emplace(key, made);
  return made;
}

ValueId Emitter::write_linear(const Base& base, const Rows& rows, const std::string& hint) {
  const LinearBase linear = *base.linear;
  const ValueId x = value_of(linear.x);
  std::vector<ValueId> inputs = {x, weight(*linear.weight, rows, hint + ".weight", 0, true)};
  if (linear.bias != nullptr) inputs.push_back(weight(*linear.bias, rows, hint + ".bias"));
  return graph.add(ops::kLinear, std::move(inputs), ops::kLinear.default_attrs(), hint,
                   source_name(base.origin))[0];
}

ValueId Emitter::write_norm(const Base& base) {
  const NormBase norm = *base.norm;
  const int64_t width = base.width / norm.heads;
  const ValueId x = value_of(norm.x);
  ir::NormAttrs attrs;
  attrs.eps = static_cast<float>(norm.eps);
  attrs.heads = norm.heads;
  const std::string hint = "norm";
  const auto ones = [&] {
    return literal(hint + ".ones", {width}, std::vector<double>(static_cast<size_t>(width), 1.0));
  };
  std::vector<ValueId> inputs = {
      x, norm.gamma == nullptr ? ones()
                               : weight(*norm.gamma, {}, hint + ".weight", norm.gamma_offset)};
  if (norm.beta != nullptr) inputs.push_back(weight(*norm.beta, {}, hint + ".bias"));
  const ir::OpSchema& op = norm.layer_norm ? ops::kLayerNorm : ops::kRmsNorm;
  return graph.add(op, std::move(inputs), Attrs::of(attrs), hint, source_name(base.origin))[0];
}

ValueId Emitter::value_of(int32_t index) {
  KVERN_CHECK(index >= 0 && static_cast<size_t>(index) < bases.size(), "base {}", index);
  const Base base = bases[static_cast<size_t>(index)];
  if (base.value.valid()) return base.value;
  KVERN_CHECK(base.kind == Base::Kind::kToken && (base.linear || base.norm),
              "base {} ({}) is no value of token form", index, base.origin);
  const ValueId made = base.linear ? write_linear(base, {}, "linear") : write_norm(base);
  bases[static_cast<size_t>(index)].value = made;
  return made;
}

int32_t Emitter::pick(const Features& features, const std::string& hint) {
  const Base base = bases.at(static_cast<size_t>(features.base));
  const bool all = is_run(features.index) && features.index[0] == 0 &&
                   static_cast<int64_t>(features.index.size()) == base.width;
  if (all) return features.base;
  const auto key = std::pair(features.base, features.index);
  const auto found = picked_.find(key);
  if (found != picked_.end()) return found->second;
  const auto width = static_cast<int64_t>(features.index.size());
  const bool run = is_run(features.index);
  std::optional<Rows> rows;
  if (run) rows = Rows{features.index[0], width, 0};
  if (!run) rows = periodic(features.index, base.width);
  Base part;
  part.width = width;
  part.origin = base.origin;
  if (base.linear && rows) {
    part.value = write_linear(base, *rows, hint);
  } else {
    ir::SelectAttrs attrs;
    attrs.runs = ir::select_runs({features.index.begin(), features.index.end()});
    part.value = graph.add1(ops::kSelect, {value_of(features.base)}, Attrs::of(attrs), hint);
  }
  const int32_t made = add_base(std::move(part));
  picked_.emplace(key, made);
  return made;
}

}  // namespace kvern::passes::token_form
