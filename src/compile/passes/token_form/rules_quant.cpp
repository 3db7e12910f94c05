// Quantised weights and activations: blocks of MatMulNBits, Q/DQ pairs.
#include <fmt/format.h>

#include "compile/passes/token_form/quant_weight.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

using ir::ElementType;
using Op = Expr::Op;

constexpr int64_t kMaxBlock = 1 << 20;

struct Range {
  double low, high;
};
std::optional<Range> range_of(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return Range{0, 255};
    case ElementType::kInt8:
      return Range{-128, 127};
    case ElementType::kUint16:
      return Range{0, 65535};
    case ElementType::kInt16:
      return Range{-32768, 32767};
    case ElementType::kUint4:
      return Range{0, 15};
    case ElementType::kInt4:
      return Range{-8, 7};
    default:
      return std::nullopt;
  }
}

struct FuncOf {
  std::shared_ptr<const View> x;
  ExprPtr f;
};
std::optional<FuncOf> func_of(const Value& value) {
  if (const Func* func = value.get<Func>()) return FuncOf{func->x, func->f};
  const auto view = value.view();
  if (view == nullptr) return std::nullopt;
  return FuncOf{view, expr_x()};
}

// Why rounding these elements cannot be done token by token; empty when it can.
std::string unroundable(const Walk& walk, const View& view) {
  for (const ir::Array& array : view.elements) {
    for (const Symbol& s : symbols(array)) {
      if (s.base[0] < 0) continue;
      if (walk.emit.bases[static_cast<size_t>(s.base[0])].kind == Base::Kind::kPast) {
        return "it quantises keys or values behind the cache; leave the products of attention "
               "out of the quantisation (nodes_to_exclude), and build with --kv int8 for a "
               "cache of 8 bits";
      }
      if (s.base[1] != kNothing) {
        return "it quantises queries or keys after their rotation; leave the products of "
               "attention out of the quantisation (nodes_to_exclude)";
      }
    }
  }
  return "";
}

}  // namespace

Value rounded(const RuleCall& call, Value& x, ElementType type, bool now,
              const std::function<ExprPtr(ExprPtr)>& f) {
  if (x.get<Scores>() != nullptr) {
    return opaque(call,
                  "it quantises attention scores or probabilities, which Kvern keeps in f32; leave "
                  "the products of attention out of the quantisation (nodes_to_exclude)");
  }
  const std::optional<FuncOf> of = func_of(x);
  if (!of) return opaque(call, "it quantises what is no activation");
  const std::string problem = unroundable(call.walk, *of->x);
  if (!problem.empty()) return opaque(call, problem);
  Value out;
  out.type = type;
  out.shapes = x.shapes;
  auto made = std::make_shared<Func>();
  made->x = of->x;
  made->f = f(of->f);
  now = now || made->f->size > kMaxExprSize;
  out.detail = std::shared_ptr<const Func>(std::move(made));
  std::string why;
  if (now && as_view(call.walk, out, &why) == nullptr) return opaque(call, why);
  return out;
}

namespace {

// One number for all elements, or the reason why not.
std::optional<double> one_scale(const RuleCall& call) {
  const std::optional<double> scale = scalar_of(call.in(1));
  const bool zero = !call.has(2) || scalar_of(call.in(2)).has_value();
  return scale && *scale > 0 && zero ? scale : std::nullopt;
}

double zero_of(const RuleCall& call) {
  return call.has(2) ? *scalar_of(call.in(2)) : 0;
}

Value no_scale(const RuleCall& call) {
  return opaque(call,
                "its scale is not one constant, or its zero point: activations have one each, "
                "known when the model is exported");
}

// Bits of a com.microsoft op's codes.
std::optional<int> bits_of(const RuleCall& call) {
  const int64_t bits = call.node.i("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return std::nullopt;
  return static_cast<int>(bits);
}

std::optional<ir::Array> default_zero(int bits) {
  return ir::Array::scalar_f32(static_cast<float>(1 << (bits - 1)));
}

// Codes [n, blocks, bytes] of MatMulNBits as a weight [n, k]; `why` where they are none.
std::shared_ptr<const Provenance> packed_weight(const RuleCall& call, std::string* why) {
  const ir::TensorNode& node = call.node;
  const int64_t n = node.i("N", 0), k = node.i("K", 0), block = node.i("block_size", 0);
  const std::optional<int> bits = bits_of(call);
  const auto refuse = [&](std::string text) {
    *why = std::move(text);
    return nullptr;
  };
  if (node.i("weight_prepacked", 0) != 0) {
    return refuse("weight_prepacked: a layout made for one GPU; export without prepacking");
  }
  if (call.has(4)) return refuse("g_idx (columns in another order) is not supported");
  if (!bits) return refuse(fmt::format("{} bits; 2, 4 and 8 are known", node.i("bits", 4)));
  if (n <= 0 || k <= 0 || block < 16 || block > kMaxBlock || (block & (block - 1)) != 0 ||
      n > (int64_t{1} << 31) || k > (int64_t{1} << 31)) {
    return refuse(
        fmt::format("N {}, K {} and block_size {} are no blocks of a matrix", n, k, block));
  }
  const std::optional<ir::Array> codes = lying(call.in(1)), scales = lying(call.in(2));
  if (!codes || !scales) return refuse("its weight is computed");
  const int64_t blocks = (k + block - 1) / block;
  const bool fits = codes->type() == ElementType::kUint8 &&
                    codes->count() == n * blocks * (block * *bits / 8) &&
                    scales->count() == n * blocks && ir::is_float(scales->type());
  if (!fits) {
    return refuse(fmt::format("codes {} and scales {} are not those of [{}, {}] in blocks of {}",
                              to_string(codes->shape()), to_string(scales->shape()), n, k, block));
  }
  auto out = std::make_shared<Provenance>();
  out->source = *codes;
  out->shape = {n, k};
  out->bits = *bits;
  out->axis = 1;
  out->block = block;
  out->scales = scales;
  out->zeros = default_zero(*bits);
  if (call.has(3)) {
    out->zeros = lying(call.in(3));
    if (!out->zeros) return refuse("its zero points are computed");
    const bool packed = out->zeros->type() == ElementType::kUint8;
    const int64_t wanted = packed ? n * ((blocks * *bits + 7) / 8) : n * blocks;
    if (out->zeros->count() != wanted) {
      return refuse(fmt::format("zero points {} where {} elements are wanted",
                                to_string(out->zeros->shape()), wanted));
    }
  }
  return out;
}

// The table of GatherBlockQuantized as a weight [rows, width].
std::shared_ptr<const Provenance> packed_table(const RuleCall& call, std::string* why) {
  const ir::TensorNode& node = call.node;
  const std::optional<int> bits = bits_of(call);
  const std::optional<ir::Array> codes = lying(call.in(0)), scales = lying(call.in(2));
  const int64_t block = node.i("block_size", 128);
  const auto refuse = [&](const char* text) {
    *why = text;
    return nullptr;
  };
  if (!codes || !scales || !bits) return refuse("its table is computed");
  int64_t axis = node.i("quantize_axis", 1);
  if (axis < 0) axis += 2;
  if (codes->rank() != 2 || node.i("gather_axis", 0) != 0 || axis != 1 || block < 16 ||
      block > kMaxBlock || codes->count() == 0) {
    return refuse("its table is no embedding quantised along features");
  }
  auto out = std::make_shared<Provenance>();
  const bool packed = codes->type() == ElementType::kUint8;
  const int64_t width = codes->shape()[1] * (packed ? 8 / *bits : 1);
  out->source = *codes;
  out->shape = {codes->shape()[0], width};
  out->bits = packed ? *bits : 0;
  out->axis = 1;
  out->block = block;
  out->scales = scales;
  if (packed) out->zeros = default_zero(*bits);
  if (call.has(3)) {
    out->zeros = lying(call.in(3));
    if (!out->zeros) return refuse("its zero points are computed");
  }
  const int64_t blocks = (width + block - 1) / block, rows = out->shape[0];
  const int64_t zero_row = packed ? (blocks * *bits + 7) / 8 : blocks;
  if (scales->count() != rows * blocks || (call.has(3) && out->zeros->count() != rows * zero_row)) {
    return refuse("its scales or zero points are not one for each block");
  }
  return out;
}

}  // namespace

Values rule_matmul_nbits(const RuleCall& call) {
  Value& x = call.in(0);
  std::string why;
  const auto weight = packed_weight(call, &why);
  if (weight == nullptr) return {opaque(call, why)};
  const auto view = as_view(call.walk, x, &why);
  if (view == nullptr) return {opaque(call, why)};
  Value out = make_linear(call, *view, weight, x.type, inferred(call)[0].shapes);
  if (!call.has(5) || out.is_opaque()) return {std::move(out)};
  return {add_values(call, out, call.in(5))};
}

Values rule_gather_block_quantized(const RuleCall& call) {
  std::string why;
  const auto table = packed_table(call, &why);
  if (table == nullptr) return {opaque(call, why)};
  return {make_embedding(call, call.in(1), table, call.in(2).type, inferred(call)[0].shapes)};
}

Values rule_quantize(const RuleCall& call) {
  const ElementType type = inferred(call)[0].type;
  const std::optional<Range> range = range_of(type);
  const std::optional<double> scale = one_scale(call);
  if (!range) return {opaque(call, "only integers of 4, 8 and 16 bits are known of it")};
  if (!scale) return {no_scale(call)};
  const double zero = zero_of(call);
  return {rounded(call, call.in(0), type, false, [&](ExprPtr x) {
    ExprPtr code = expr(Op::kRound, expr(Op::kDiv, std::move(x), expr_const(*scale)));
    if (zero != 0) code = expr(Op::kAdd, code, expr_const(zero));
    return expr(Op::kMin, expr(Op::kMax, code, expr_const(range->low)), expr_const(range->high));
  })};
}

Values rule_dequantize(const RuleCall& call) {
  const std::optional<double> scale = one_scale(call);
  if (!scale) return {no_scale(call)};
  const double zero = zero_of(call);
  const ElementType type = inferred(call)[0].type;
  return {rounded(call, call.in(0), type, true, [&](ExprPtr code) {
    if (zero != 0) code = expr(Op::kSub, std::move(code), expr_const(zero));
    return expr(Op::kMul, std::move(code), expr_const(*scale));
  })};
}

// (a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
Values rule_qlinear_matmul(const RuleCall& call) {
  const auto dequantised = [&](size_t i) {
    return run_op(call, "DequantizeLinear", 13, {call.in(i), call.in(i + 1), call.in(i + 2)});
  };
  const Value y = run_op(call, "MatMul", 13, {dequantised(0), dequantised(3)});
  return {run_op(call, "QuantizeLinear", 13, {y, call.in(6), call.in(7)})};
}

}  // namespace kvern::passes::token_form
