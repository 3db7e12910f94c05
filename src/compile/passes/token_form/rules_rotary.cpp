// Rotation as an op, or as a part of one: its tables of cos and sin, its positions, its turns.
#include <fmt/format.h>

#include <cmath>

#include "compile/passes/token_form/rotation.h"
#include "compile/passes/token_form/rotation_table.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

// Elements turned by the rows of cos and sin [batch, tokens, half] in every layout world.
Value turn(const RuleCall& call, Value& x, const std::vector<ir::Array>& cos,
           const std::vector<ir::Array>& sin, int64_t heads, bool interleaved) {
  std::string why;
  const auto view = as_view(call.walk, x, &why);
  if (view == nullptr) return opaque(call, why);
  std::vector<ir::Array> elements;
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    const ir::Array& from = view->elements[world];
    const Shape& shape = from.shape();
    const bool wide = shape.size() == 3;  // [batch, tokens, heads * dim]
    const int64_t tokens = wide ? shape[1] : shape[2];
    const int64_t dim = wide ? shape[2] / heads : shape[3];
    const int64_t num_heads = wide ? heads : shape[1];
    const int64_t half = cos[world].shape().back();
    const std::vector<float> c = cos[world].to_f32(), s = sin[world].to_f32();
    ir::Array out = from;
    const std::span<Symbol> to = out.mutable_as<Symbol>();
    const std::span<const Symbol> source = symbols(from);
    for (int64_t row = 0; row < shape[0] * tokens * num_heads; ++row) {
      const int64_t t = wide ? row / num_heads % tokens : row % tokens;
      const int64_t b = row / (num_heads * tokens);
      const int64_t base = row * dim;
      for (int64_t i = 0; i < half; ++i) {
        const int64_t u = base + (interleaved ? 2 * i : i);
        const int64_t v = base + (interleaved ? 2 * i + 1 : i + half);
        const size_t at =
            static_cast<size_t>(((cos[world].shape()[0] == 1 ? 0 : b) * tokens + t) * half + i);
        const Symbol x0 = source[static_cast<size_t>(u)], x1 = source[static_cast<size_t>(v)];
        if (x0.base[1] != kNothing || x1.base[1] != kNothing)
          return opaque(call, "it rotates twice");
        const auto sum = [](const Symbol& p, float fp, const Symbol& q, float fq) {
          Symbol made;
          made.base[0] = p.base[0];
          made.index[0] = p.index[0];
          made.factor[0] = p.factor[0] * fp;
          made.base[1] = q.base[0];
          made.index[1] = q.index[0];
          made.factor[1] = q.factor[0] * fq;
          return made;
        };
        to[static_cast<size_t>(u)] = sum(x0, c[at], x1, -s[at]);
        to[static_cast<size_t>(v)] = sum(x1, c[at], x0, s[at]);
      }
    }
    elements.push_back(std::move(out));
  }
  return view_value(x.type, x.shapes, std::move(elements));
}

// cos or sin of a table of f16 or bf16 without what that rounded.
Value unrounded(const TurnTable& table, const Shape& shape, bool is_sin) {
  ir::Array out(ir::ElementType::kFloat, shape);
  const std::span<float> to = out.mutable_as<float>();
  for (size_t i = 0; i < to.size(); ++i) {
    const auto position = static_cast<double>(i / table.frequencies.size());
    const double angle = position * table.frequencies[i % table.frequencies.size()];
    to[i] = static_cast<float>(table.scale * (is_sin ? std::sin(angle) : std::cos(angle)));
  }
  return known(ir::ElementType::kFloat, {std::move(out)});
}

// Rows of a table [positions, half] for the positions of every world; a table of [.., tokens, half]
// is taken as it is.
std::vector<ir::Array> angle_rows(const RuleCall& call, Value& table, Value* positions) {
  std::vector<ir::Array> out;
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    const World& w = call.walk.worlds[world];
    const ir::Array& all = table.known()->at(world);
    if (all.rank() == 3) {
      out.push_back(all);
      continue;
    }
    std::vector<int64_t> at;
    if (positions != nullptr) at = positions->known()->at(world).to_i64();
    const int64_t half = all.shape().back();
    const std::vector<float> from = all.to_f32();
    ir::Array rows(ir::ElementType::kFloat, {w.batch, w.tokens, half});
    const std::span<float> to = rows.mutable_as<float>();
    for (int64_t token = 0; token < w.batch * w.tokens; ++token) {
      int64_t p = w.past + token % w.tokens;
      // One position is the first one's of each sequence; a list says every one.
      if (static_cast<int64_t>(at.size()) == 1) p = at[0] + token % w.tokens;
      if (static_cast<int64_t>(at.size()) >= w.tokens && at.size() > 1) {
        p = at[static_cast<size_t>(token) % at.size()];
      }
      if (p < 0 || p >= all.shape()[0]) {
        throw Error(Code::kInvalidModel,
                    fmt::format("onnx: {}: position {} is outside of its table of {} rows",
                                call.node.who(), p, all.shape()[0]));
      }
      for (int64_t i = 0; i < half; ++i) {
        to[static_cast<size_t>(token * half + i)] = from[static_cast<size_t>(p * half + i)];
      }
    }
    out.push_back(std::move(rows));
  }
  return out;
}

// What keeps cos and sin from turning x; empty where they can. Files may say anything here.
std::string unfit(const Walk& walk, const Value& x, const Value& cos, const Value& sin,
                  int64_t heads) {
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    const World& w = walk.worlds[world];
    const Shape &c = cos.shapes[world], &shape = x.shapes[world];
    const bool table = c.size() == 2 && c[0] > 0 && c[1] > 0;
    const bool rows =
        c.size() == 3 && (c[0] == 1 || c[0] == w.batch) && c[1] == w.tokens && c[2] > 0;
    if (c != sin.shapes[world] || !(table || rows)) {
      return fmt::format("cos and sin of {} and {} are no tables of positions", to_string(c),
                         to_string(sin.shapes[world]));
    }
    if (shape.size() != 4 && (shape.size() != 3 || heads <= 0 || shape[2] % heads != 0)) {
      return fmt::format("{} is no list of {} heads", to_string(shape), heads);
    }
    const bool wide = shape.size() == 3;
    const int64_t dim = wide ? shape[2] / heads : shape[3];
    if (shape[0] != w.batch || shape[wide ? 1 : 2] != w.tokens || c.back() > dim / 2) {
      return fmt::format("cos of {} does not fit heads of {} in {}", to_string(c), dim,
                         to_string(shape));
    }
  }
  return "";
}

}  // namespace

Value rotate(const RuleCall& call, Value& x, Value& cos, Value& sin, Value* positions,
             int64_t heads, bool interleaved) {
  if (cos.known() == nullptr || sin.known() == nullptr ||
      (positions != nullptr && positions->known() == nullptr)) {
    return opaque(call, "its angles depend on activations");
  }
  if (const std::string why = unfit(call.walk, x, cos, sin, heads); !why.empty()) {
    return opaque(call, why);
  }
  if (cos.shapes[0].size() == 3) {
    Value c = exact_angles(call, cos), s = exact_angles(call, sin);
    if (const auto view = x.view()) {
      note_turned(call.walk, *view, c);
      note_turned(call.walk, *view, s);
    }
    return turn(call, x, angle_rows(call, c, positions), angle_rows(call, s, positions), heads,
                interleaved);
  }
  const std::optional<TurnTable> table = read_turn_table(call, cos, sin);
  if (!table || table->floats == ir::ElementType::kFloat) {
    return turn(call, x, angle_rows(call, cos, positions), angle_rows(call, sin, positions), heads,
                interleaved);
  }
  Value c = unrounded(*table, cos.shapes[0], false), s = unrounded(*table, cos.shapes[0], true);
  return turn(call, x, angle_rows(call, c, positions), angle_rows(call, s, positions), heads,
              interleaved);
}

Values rule_rotary(const RuleCall& call) {
  const bool microsoft = !call.node.domain.empty();
  const bool interleaved = call.node.i("interleaved", 0) != 0;
  Value* positions = microsoft ? &call.in(1) : call.has(3) ? &call.in(3) : nullptr;
  Value& cos = call.in(microsoft ? 2 : 1);
  Value& sin = call.in(microsoft ? 3 : 2);
  int64_t heads = call.node.i("num_heads", 0);
  const Shape& shape = call.in(0).shapes[0];
  if (shape.size() == 3 && heads == 0) {
    const int64_t rotary = call.node.i("rotary_embedding_dim", 0);
    const int64_t dim = rotary > 0 ? 0 : 2 * cos.shapes[0].back();
    if (dim <= 0 || shape[2] % dim != 0) return {opaque(call, "num_heads is missing")};
    heads = shape[2] / dim;
  }
  return {rotate(call, call.in(0), cos, sin, positions, heads, interleaved)};
}

}  // namespace kvern::passes::token_form
