#include "compile/passes/token_form/combine.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/ir/ops.h"
#include "compile/passes/token_form/activation.h"
#include "compile/passes/token_form/attention.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;

std::vector<float> numbers_of(const ir::Array& array) {
  if (ir::is_float(array.type())) return array.to_f32();
  const std::vector<int64_t> values = array.to_i64();
  return {values.begin(), values.end()};
}

// What a map reads.
struct Input {
  std::shared_ptr<const View> view;  // or
  Value* constant = nullptr;
};

// The constant's number for each feature of a token; nothing where tokens differ.
std::optional<std::vector<double>> by_feature(const Walk& walk, Value& constant,
                                              const TokenSet& set,
                                              const std::vector<Shape>& shapes) {
  if (!constant.known()->uniform() && !rows_alike(walk, constant)) return std::nullopt;
  std::vector<double> out(set.features.index.size());
  std::vector<bool> seen(out.size(), false);
  for (size_t world = 0; world < walk.num_layout; ++world) {
    const ir::Array all = broadcast(constant.known()->at(world), shapes[world]);
    const std::vector<float> values = numbers_of(all);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t feature = static_cast<size_t>(set.place[world][i]) % out.size();
      if (seen[feature] && out[feature] != static_cast<double>(values[i])) return std::nullopt;
      seen[feature] = true;
      out[feature] = values[i];
    }
  }
  return out;
}

View broadcast_view(const Walk& walk, const View& view, const std::vector<Shape>& shapes) {
  View out;
  for (size_t world = 0; world < walk.num_layout; ++world) {
    out.elements.push_back(broadcast(view.elements[world], shapes[world]));
  }
  return out;
}

// Features that are few, each as many times in a row as the others: those few. A map repeats them.
std::optional<Features> narrowed(const Features& f) {
  const size_t n = f.index.size();
  const auto same = [&](size_t a, size_t b) {
    return f.index[a] == f.index[b] && (f.factor.size() == 1 || f.factor[a] == f.factor[b]);
  };
  size_t run = 1;
  while (run < n && same(run, 0)) ++run;
  if (run == 1 || n % run != 0) return std::nullopt;
  Features out;
  out.base = f.base;
  if (f.factor.size() == 1) out.factor = f.factor;
  for (size_t i = 0; i < n; ++i) {
    if (!same(i, i / run * run)) return std::nullopt;
    if (i % run != 0) continue;
    out.index.push_back(f.index[i]);
    if (f.factor.size() > 1) out.factor.push_back(f.factor[i]);
  }
  return out;
}

// The map's inputs, in their order, and where the result's elements lie.
struct Read {
  std::vector<ir::ValueId> inputs;
  TokenSet set;
};

std::optional<Read> read(Walk& walk, const std::vector<Input>& inputs,
                         const std::vector<Shape>& shapes, const std::string& origin,
                         std::string* why) {
  std::vector<std::optional<TokenSet>> sets(inputs.size());
  const TokenSet* first = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].view == nullptr) continue;
    sets[i] = tokens_of(walk, broadcast_view(walk, *inputs[i].view, shapes), why);
    if (!sets[i] && tokens_of(walk, *inputs[i].view, nullptr)) *why = kCrosses;
    if (!sets[i]) return std::nullopt;
    if (first != nullptr && sets[i]->place != first->place) {
      *why = kCrosses;
      return std::nullopt;
    }
    if (first == nullptr) first = &*sets[i];
  }
  Read out{{}, *first};
  bool has_full = std::any_of(inputs.begin(), inputs.end(),
                              [](const Input& input) { return input.constant != nullptr; });
  for (const auto& set : sets) has_full = has_full || (set && !narrowed(set->features));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].constant != nullptr) {
      const auto vector = by_feature(walk, *inputs[i].constant, *first, shapes);
      if (!vector) {
        *why = "it combines activations with a constant that differs from token to token";
        return std::nullopt;
      }
      out.inputs.push_back(
          walk.emit.literal("constant", {static_cast<int64_t>(vector->size())}, *vector));
      continue;
    }
    const std::optional<Features> few = has_full ? narrowed(sets[i]->features) : std::nullopt;
    has_full = true;
    out.inputs.push_back(
        walk.emit.value_of(materialise(walk, few ? *few : sets[i]->features, "part", origin)));
  }
  return out;
}

// The last number is an earlier one where it is equal: x * x.
void share(std::vector<ExprPtr>& numbers) {
  const Expr& last = *numbers.back();
  const auto scaled = [](const Expr& f) {
    return f.op == Expr::Op::kMul && f.a->op == Expr::Op::kX && f.b->op == Expr::Op::kConst;
  };
  for (const ExprPtr& f : numbers) {
    if (scaled(*f) && scaled(last) && f->a->value == last.a->value &&
        f->b->value == last.b->value) {
      numbers.back() = f;
      return;
    }
  }
}

}  // namespace

std::optional<OfView> of_view(Walk& walk, Value& value, std::string* why) {
  if (const Func* func = value.get<Func>()) return OfView{func->x, func->f};
  const auto view = as_view(walk, value, why);
  if (view == nullptr) return std::nullopt;
  if (view->root == nullptr) return OfView{view, expr_x()};
  return OfView{view->root, expr(Expr::Op::kMul, expr_x(), expr_const(view->factor))};
}

Value func_value(ir::ElementType type, std::vector<Shape> shapes, std::shared_ptr<const View> x,
                 ExprPtr f) {
  Value out;
  out.type = type;
  out.shapes = std::move(shapes);
  out.detail = std::make_shared<const Func>(Func{std::move(x), std::move(f)});
  return out;
}

bool rows_alike(const Walk& walk, Value& constant) {
  Known& known = *constant.known();
  std::optional<std::vector<float>> row;
  if (known.table != nullptr && known.table->uniform()) {
    std::optional<int64_t> chosen;
    bool one = true;
    for (size_t world = 0; world < walk.worlds.size() && one; ++world) {
      for (const int64_t at : const_cast<Known&>(*known.rows).at(world).to_i64()) {
        one = one && at == chosen.value_or(at);
        chosen = at;
      }
    }
    return one;
  }
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    const ir::Array& array = known.at(world);
    const std::vector<float> values = numbers_of(array);
    const size_t width = array.rank() == 0 ? 1 : static_cast<size_t>(array.shape().back());
    if (!row)
      row.emplace(values.begin(),
                  values.begin() + static_cast<ptrdiff_t>(std::min(width, values.size())));
    if (width != row->size()) return false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != (*row)[i % width]) return false;
    }
  }
  return true;
}

Value combine(const RuleCall& call, const ExprPtr& f, std::span<Value* const> values,
              ir::ElementType type, std::vector<Shape> shapes) {
  Walk& walk = call.walk;
  std::vector<Input> inputs;
  std::vector<ExprPtr> numbers;
  std::string why;
  for (Value* value : values) {
    Input input;
    ExprPtr function = expr_x();
    if (value->known() != nullptr) {
      if (const std::optional<double> number = scalar_of(*value)) {
        numbers.push_back(expr_const(*number));
        continue;
      }
      input.constant = value;
    } else {
      if (!value->is_opaque() && ir::is_integer(value->type)) {
        return opaque(call,
                      "it computes on the ids of tokens, which only an embedding may read (a "
                      "padding id that is looked for, as sequence classifiers do, is not "
                      "supported)");
      }
      const std::optional<OfView> of = of_view(walk, *value, &why);
      if (!of) return opaque(call, why);
      input.view = of->x;
      function = of->f;
    }
    size_t at = 0;
    while (at < inputs.size() && (input.view == nullptr || inputs[at].view != input.view)) ++at;
    if (at == inputs.size()) inputs.push_back(input);
    numbers.push_back(at == 0 ? function : substitute(function, {expr_x(static_cast<int>(at))}));
    share(numbers);
  }
  const ExprPtr whole = substitute(f, numbers);
  const auto program = map_text(*whole, static_cast<int>(inputs.size()));
  if (!program || whole->size > kMaxExprSize) {  // in parts: the values first
    bool written = false;
    for (Value* value : values) {
      if (value->get<Func>() == nullptr) continue;
      if (as_view(walk, *value, &why) == nullptr) return opaque(call, why);
      written = true;
    }
    if (written) return combine(call, f, values, type, std::move(shapes));
  }
  if (inputs.size() == 1 && inputs[0].view != nullptr) {
    bool same = true;
    for (size_t world = 0; world < walk.num_layout; ++world) {
      same = same && inputs[0].view->elements[world].shape() == shapes[world];
    }
    auto x = same ? inputs[0].view
                  : std::make_shared<const View>(broadcast_view(walk, *inputs[0].view, shapes));
    return func_value(type, std::move(shapes), std::move(x), whole);
  }
  if (!program || inputs.size() > static_cast<size_t>(kMaxMapInputs)) {
    return opaque(call, kNoMap);
  }
  const std::optional<Read> from = read(walk, inputs, shapes, call.node.who(), &why);
  if (!from) return opaque(call, why);
  const ir::ValueId y = walk.emit.graph.add(
      ops::kMap, from->inputs, ir::Attrs::of(ir::MapAttrs{*program}), "map", call.node.name)[0];
  const auto width = static_cast<int64_t>(from->set.features.index.size());
  const int32_t base = walk.emit.emitted(y, width, call.node.who());
  std::vector<ir::Array> elements =
      placed(from->set, std::span(shapes).first(walk.num_layout), base);
  return view_value(type, std::move(shapes), std::move(elements));
}

}  // namespace kvern::passes::token_form
