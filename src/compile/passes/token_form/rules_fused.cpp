// Attention as a single op: taken apart into the same parts as everywhere.
#include <fmt/format.h>

#include <cmath>

#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/rotation.h"
#include "compile/passes/token_form/rules.h"
#include "compile/passes/token_form/sinks.h"

namespace kvern::passes::token_form {
namespace {

constexpr float kHidden = -3.4e38f;

Value reshape(const RuleCall& call, Value& x, std::vector<int64_t> shape) {
  return run_op(call, "Reshape", 14, {x, constant_i64(call, std::move(shape))});
}
Value transpose(const RuleCall& call, const Value& x, std::vector<int64_t> perm) {
  return run_op(call, "Transpose", 13, {x}, {{"perm", std::move(perm)}});
}

// [batch, tokens, heads * dim] -> [batch, heads, tokens, dim]
Value split_heads(const RuleCall& call, Value& x, int64_t heads) {
  Value wide = reshape(call, x, {0, 0, heads, -1});
  return wide.is_opaque() ? wide : transpose(call, wide, {0, 2, 1, 3});
}
Value join_heads(const RuleCall& call, const Value& x) {
  Value wide = transpose(call, x, {0, 2, 1, 3});
  return wide.is_opaque() ? wide : reshape(call, wide, {0, 0, -1});
}

Value concat_rows(const RuleCall& call, const Value& past, const Value& fresh) {
  return run_op(call, "Concat", 13, {past, fresh}, {{"axis", int64_t{2}}});
}

// Each KV head as often as query heads read it.
Value repeat_heads(const RuleCall& call, const Value& x, int64_t heads) {
  const int64_t kv_heads = x.shapes[0][1];
  if (kv_heads == heads) return x;
  std::vector<int64_t> index;
  for (int64_t h = 0; h < heads; ++h) index.push_back(h * kv_heads / heads);
  return run_op(call, "Gather", 13, {x, constant_i64(call, std::move(index))},
                {{"axis", int64_t{1}}});
}

struct MaskRule {
  bool causal = false;
  int64_t window = -1;  // a token sees so many positions, its own among them; -1: all
  // The op knows how many keys are older than its tokens: from its own past or lengths. Else its
  // first token sees the first key alone, wherever the keys come from.
  bool knows_past = false;
  bool has_lengths = false;  // keys behind them are hidden
};

// Causal and windowed masks of an op's attributes, in every world.
std::vector<ir::Array> rule_bias(const Walk& walk, const std::vector<Shape>& shapes,
                                 const MaskRule& rule) {
  std::vector<ir::Array> out;
  for (size_t world = 0; world < shapes.size(); ++world) {
    const int64_t tokens = shapes[world][shapes[world].size() - 2], keys = shapes[world].back();
    const int64_t first = rule.knows_past ? walk.worlds[world].past : 0;
    ir::Array bias(ir::ElementType::kFloat, {tokens, keys});
    const std::span<float> to = bias.mutable_as<float>();
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        const bool late = rule.causal && j > first + i;
        const bool early = rule.window > 0 && j <= first + i - rule.window;
        const bool behind = rule.has_lengths && j >= walk.worlds[world].total();
        if (late || early || behind) to[static_cast<size_t>(i * keys + j)] = kHidden;
      }
    }
    out.push_back(std::move(bias));
  }
  return out;
}

// A mask input as a bias: bools choose, floats are added; a short one hides what it lacks.
std::vector<ir::Array> mask_bias(Value& mask, const std::vector<Shape>& shapes) {
  std::vector<ir::Array> out;
  for (size_t world = 0; world < shapes.size(); ++world) {
    const ir::Array& given = mask.known()->at(world);
    const int64_t columns = given.rank() == 0 ? 1 : given.shape().back();
    const int64_t keys = shapes[world].back();
    Shape shape = given.shape();
    if (shape.empty()) shape = {1};
    shape.back() = columns == 1 ? 1 : keys;
    ir::Array bias(ir::ElementType::kFloat, shape);
    const std::vector<float> values = given.to_f32();
    const std::span<float> to = bias.mutable_as<float>();
    const int64_t width = shape.back();
    for (int64_t i = 0; i < bias.count(); ++i) {
      const int64_t row = i / width, column = i % width;
      if (column >= columns) {
        to[static_cast<size_t>(i)] = kHidden;
        continue;
      }
      const float v = values[static_cast<size_t>(row * columns + column)];
      const bool is_bool = given.type() == ir::ElementType::kBool;
      to[static_cast<size_t>(i)] = is_bool ? (v != 0 ? 0.0f : kHidden) : v;
    }
    out.push_back(std::move(bias));
  }
  return out;
}

struct AttentionParts {
  Value q, k, v;                // [batch, heads, tokens | keys, dim], K and V with their own heads
  std::optional<double> scale;  // else 1 / sqrt(dim)
  double softcap = 0;
  MaskRule rule;
  Value* mask = nullptr;
  std::vector<float> sinks;  // one per query head; empty: none
};

Value attend_parts(const RuleCall& call, AttentionParts parts) {
  for (const Value* x : {&parts.q, &parts.k, &parts.v}) {
    if (x->is_opaque()) return *x;
    if (x->shapes[0].size() != 4 || x->shapes[0][1] <= 0 || x->shapes[0][3] <= 0) {
      return opaque(call,
                    fmt::format("{} is no [batch, heads, length, dim]", to_string(x->shapes[0])));
    }
  }
  const int64_t heads = parts.q.shapes[0][1];
  if (heads % parts.k.shapes[0][1] != 0 || parts.k.shapes[0][1] != parts.v.shapes[0][1]) {
    return opaque(call, fmt::format("{} query heads cannot share {} key and {} value heads", heads,
                                    parts.k.shapes[0][1], parts.v.shapes[0][1]));
  }
  const Value k = repeat_heads(call, parts.k, heads);
  const Value v = repeat_heads(call, parts.v, heads);
  Value scores = run_op(call, "MatMul", 13, {parts.q, transpose(call, k, {0, 1, 3, 2})});
  if (scores.is_opaque()) return scores;
  Scores made = *scores.get<Scores>();
  const double dim = static_cast<double>(parts.q.shapes[0].back());
  made.factor *= parts.scale.value_or(1 / std::sqrt(dim));
  if (!(made.factor > 0)) {
    return opaque(
        call, fmt::format("its scale is {:g}; scores are scaled by a number above 0", made.factor));
  }
  made.softcap = parts.softcap;
  if (parts.rule.causal || parts.rule.window > 0 || parts.rule.has_lengths) {
    add_bias(made, rule_bias(call.walk, scores.shapes, parts.rule));
  }
  if (parts.mask != nullptr) {
    if (parts.mask->known() == nullptr) return opaque(call, "its mask depends on activations");
    add_bias(made, mask_bias(*parts.mask, scores.shapes));
  }
  if (!parts.sinks.empty()) made.sinks = sinks_by_head(call.walk, parts.sinks);
  made.normalised = true;
  Value probabilities = scores_value(scores.type, scores.shapes, std::move(made));
  std::vector<Shape> shapes = scores.shapes;
  for (Shape& shape : shapes) shape.back() = parts.v.shapes[0].back();
  std::string why;
  Value values = v;
  const auto view = as_view(call.walk, values, &why);
  if (view == nullptr) return opaque(call, why);
  return attend(call.walk, call.node, probabilities, *view, parts.v.type, std::move(shapes));
}

// Whether the cache has a row for each token of the past and no more, in every world.
bool is_full(const Walk& walk, const Value& past) {
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    if (past.shapes[world][2] != walk.worlds[world].past) return false;
  }
  return true;
}

// Rows of the cache before the past's end, for buffers longer than what they hold.
Value held_rows(const RuleCall& call, Value& past) {
  if (is_full(call.walk, past)) return past;
  std::vector<ir::Array> ends;
  for (const World& w : call.walk.worlds) ends.push_back(ir::Array::vector_i64({w.past}));
  return run_op(call, "Slice", 13,
                {past, constant_i64(call, {0}), known(ir::ElementType::kInt64, std::move(ends)),
                 constant_i64(call, {2})});
}

// What a shared buffer holds afterwards.
Value whole_buffer(const RuleCall& call, Value& past, const Value& now) {
  if (is_full(call.walk, past)) return now;
  std::vector<ir::Array> begins;
  for (const World& w : call.walk.worlds) begins.push_back(ir::Array::vector_i64({w.total()}));
  Value rest = run_op(call, "Slice", 13,
                      {past, known(ir::ElementType::kInt64, std::move(begins)),
                       constant_i64(call, {1 << 30}), constant_i64(call, {2})});
  return rest.is_opaque() ? rest : concat_rows(call, now, rest);
}

// What is wrong with an input that says how many keys there are, less `without`; empty: nothing.
std::string unlike_length(const RuleCall& call, size_t input, const char* name, int64_t without) {
  if (!call.has(input)) return "";
  if (call.in(input).known() == nullptr) {
    return fmt::format("its {} depends on activations", name);
  }
  for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
    const int64_t wanted = call.walk.worlds[world].total() - without;
    for (const int64_t length : call.in(input).known()->at(world).to_i64()) {
      if (length != wanted) {
        return fmt::format("its {} is {} after {} tokens, where {} is wanted", name, length,
                           call.walk.worlds[world].total(), wanted);
      }
    }
  }
  return "";
}

// What is wrong with a key_padding_mask of MultiHeadAttention: the number of keys of each sequence,
// or a mask whose zeros hide; empty: nothing.
std::string unlike_padding(const RuleCall& call, size_t input) {
  Value& padding = call.in(input);
  if (padding.known() == nullptr) return "its key_padding_mask depends on activations";
  for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
    const Shape& shape = padding.shapes[world];
    if (shape.size() == 1) {
      if (shape[0] == call.walk.worlds[world].batch) continue;
      return fmt::format(
          "its key_padding_mask of {} holds where sequences begin and end; export "
          "with one number of keys per sequence, or a mask of zeros and ones",
          to_string(shape));
    }
    for (const int64_t visible : padding.known()->at(world).to_i64()) {
      if (visible == 0) return "its key_padding_mask hides tokens that are no padding";
    }
  }
  return padding.shapes[0].size() == 1 ? unlike_length(call, input, "key_padding_mask", 0) : "";
}

Values outputs(const RuleCall& call, std::vector<Value> made) {
  while (made.size() < call.node.outputs.size()) {
    made.push_back(opaque(call, "this output is not supported yet"));
  }
  made.resize(call.node.outputs.size());
  return made;
}

}  // namespace

Values rule_attention(const RuleCall& call) {
  const ir::TensorNode& node = call.node;
  AttentionParts parts;
  const bool wide = call.in(0).shapes[0].size() == 3;
  Value q = call.in(0), k = call.in(1), v = call.in(2);
  if (wide) {
    q = split_heads(call, q, node.i("q_num_heads", 1));
    k = split_heads(call, k, node.i("kv_num_heads", 1));
    v = split_heads(call, v, node.i("kv_num_heads", 1));
  }
  if (call.has(4)) k = concat_rows(call, call.in(4), k);
  if (call.has(5)) v = concat_rows(call, call.in(5), v);
  parts.q = q;
  parts.k = k;
  parts.v = v;
  if (node.has("scale")) parts.scale = node.f("scale", 0);
  parts.softcap = node.f("softcap", 0);
  parts.rule.causal = node.i("is_causal", 0) != 0;
  const int64_t left = node.i("left_window_size", -1);
  if (left >= 0) parts.rule.window = left + 1;
  if (call.has(3)) parts.mask = &call.in(3);
  if (call.has(3) && call.in(3).shapes.size() > 0 && call.in(3).shapes[0].size() > 4) {
    return outputs(call, {opaque(call, fmt::format("its attn_mask has rank {}; ranks 1 to 4 are "
                                                   "defined",
                                                   call.in(3).shapes[0].size()))});
  }
  if (const std::string why = unlike_length(call, 6, "nonpad_kv_seqlen", 0); !why.empty()) {
    return outputs(call, {opaque(call, why)});
  }
  parts.rule.has_lengths = call.has(6);
  parts.rule.knows_past = call.has(4) || call.has(6);
  Value y = attend_parts(call, std::move(parts));
  if (wide && !y.is_opaque()) y = join_heads(call, y);
  return outputs(call, {y, k, v});
}

Values rule_group_query_attention(const RuleCall& call) {
  const ir::TensorNode& node = call.node;
  const int64_t heads = node.i("num_heads", 0), kv_heads = node.i("kv_num_heads", 0);
  if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0) {
    return outputs(call, {opaque(call, "num_heads and kv_num_heads do not fit")});
  }
  if (call.has(12) || node.s("k_quant_type", "NONE") != "NONE") {
    return outputs(call, {opaque(call,
                                 "a quantised cache of the file is not supported; export with a "
                                 "float cache and build with --kv int8")});
  }
  std::string why = unlike_length(call, 5, "seqlens_k", 1);
  if (why.empty()) why = unlike_length(call, 6, "total_sequence_length", 0);
  if (!why.empty()) return outputs(call, {opaque(call, why)});
  Value q = call.in(0), k, v;
  if (q.shapes[0].size() != 3) {
    return outputs(call, {opaque(call, "its query is no [batch, length, width]")});
  }
  if (call.has(1)) {
    k = call.in(1);
    v = call.in(2);
  } else {
    const int64_t dim = q.shapes[0].back() / (heads + 2 * kv_heads);
    const auto part = [&](int64_t from, int64_t to) {
      return run_op(call, "Slice", 13,
                    {call.in(0), constant_i64(call, {from * dim}), constant_i64(call, {to * dim}),
                     constant_i64(call, {2})});
    };
    q = part(0, heads);
    k = part(heads, heads + kv_heads);
    v = part(heads + kv_heads, heads + 2 * kv_heads);
  }
  for (const Value* x : {&q, &k, &v}) {
    if (x->is_opaque()) return outputs(call, {*x});
  }
  q = split_heads(call, q, heads);
  k = split_heads(call, k, kv_heads);
  v = split_heads(call, v, kv_heads);
  const auto normed = [&](Value& x, size_t weight) {
    if (!call.has(weight) || x.is_opaque()) return;
    std::string problem;
    const auto view = as_view(call.walk, x, &problem);
    x = view == nullptr
            ? opaque(call, problem)
            : make_norm(call, *view, x.type, x.shapes, false, node.f("qk_norm_epsilon", 1e-6));
    if (!x.is_opaque()) x = run_op(call, "Mul", 14, {x, call.in(weight)});
  };
  normed(q, 14);
  normed(k, 15);
  if (node.i("do_rotary", 0) != 0) {
    const bool pairs = node.i("rotary_interleaved", 0) != 0;
    Value* positions = call.has(9) ? &call.in(9) : nullptr;
    q = rotate(call, q, call.in(7), call.in(8), positions, heads, pairs);
    k = rotate(call, k, call.in(7), call.in(8), positions, kv_heads, pairs);
  }
  for (const Value* x : {&q, &k, &v}) {
    if (x->is_opaque()) return outputs(call, {*x});
  }
  AttentionParts parts;
  Value present_k = k, present_v = v;
  if (call.has(3) && call.has(4)) {
    k = concat_rows(call, held_rows(call, call.in(3)), k);
    v = concat_rows(call, held_rows(call, call.in(4)), v);
    if (k.is_opaque() || v.is_opaque()) return outputs(call, {k.is_opaque() ? k : v});
    present_k = whole_buffer(call, call.in(3), k);
    present_v = whole_buffer(call, call.in(4), v);
  }
  parts.q = q;
  parts.k = k;
  parts.v = v;
  if (node.f("scale", 0) != 0) parts.scale = node.f("scale", 0);
  parts.softcap = node.f("softcap", 0);
  parts.rule.causal = node.i("causal", 1) != 0;
  parts.rule.knows_past = call.has(3) && call.has(4);
  parts.rule.window = node.i("local_window_size", -1);
  if (call.has(11)) {
    Value& sinks = call.in(11);
    if (sinks.known() == nullptr || !sinks.known()->uniform() ||
        num_elements(sinks.shapes[0]) != heads) {
      return outputs(call, {opaque(call, "head_sink must hold one constant per head")});
    }
    parts.sinks = sinks.known()->at(0).to_f32();
  } else if (node.i("smooth_softmax", 0) > 0) {
    parts.sinks.assign(static_cast<size_t>(heads), 0.0f);
  }
  if (call.has(10)) parts.mask = &call.in(10);
  Value y = attend_parts(call, std::move(parts));
  if (!y.is_opaque()) y = join_heads(call, y);
  return outputs(call, {y, present_k, present_v});
}

Values rule_multi_head_attention(const RuleCall& call) {
  const ir::TensorNode& node = call.node;
  const int64_t heads = node.i("num_heads", 0);
  if (heads <= 0 || !call.has(1) || !call.has(2)) {
    return outputs(call, {opaque(call, "only separate query, key and value are known of it")});
  }
  Value q = call.in(0), k = call.in(1), v = call.in(2);
  for (const Value* x : {&q, &k, &v}) {
    if (x->shapes[0].size() == 3 || (x != &q && x->shapes[0].size() == 4)) continue;
    return outputs(call, {opaque(call,
                                 "query, key and value must have three dims (or the last two "
                                 "four)")});
  }
  if (call.has(3)) {
    const int64_t width = q.shapes[0].back(), kv = k.shapes[0].size() == 3 ? k.shapes[0].back() : 0;
    if (kv == 0) return outputs(call, {opaque(call, "a bias beside keys of four dims")});
    const auto part = [&](int64_t from, int64_t to) {
      return run_op(call, "Slice", 13,
                    {call.in(3), constant_i64(call, {from}), constant_i64(call, {to})});
    };
    Value bq = part(0, width), bk = part(width, width + kv), bv = part(width + kv, 1 << 30);
    q = add_values(call, q, bq);
    k = add_values(call, k, bk);
    v = add_values(call, v, bv);
  }
  for (const Value* x : {&q, &k, &v}) {
    if (x->is_opaque()) return outputs(call, {*x});
  }
  q = split_heads(call, q, heads);
  if (k.shapes[0].size() == 3) k = split_heads(call, k, heads);
  if (v.shapes[0].size() == 3) v = split_heads(call, v, heads);
  if (call.has(6)) k = concat_rows(call, call.in(6), k);
  if (call.has(7)) v = concat_rows(call, call.in(7), v);
  AttentionParts parts;
  parts.q = q;
  parts.k = k;
  parts.v = v;
  if (node.f("scale", 0) != 0) parts.scale = node.f("scale", 0);
  parts.rule.causal = node.i("unidirectional", 0) != 0;
  parts.rule.knows_past = call.has(6);
  if (call.has(4)) {
    if (const std::string why = unlike_padding(call, 4); !why.empty()) {
      return outputs(call, {opaque(call, why)});
    }
  }
  if (call.has(5)) parts.mask = &call.in(5);
  Value y = attend_parts(call, std::move(parts));
  if (!y.is_opaque()) y = join_heads(call, y);
  return outputs(call, {y, k, v});
}

}  // namespace kvern::passes::token_form
