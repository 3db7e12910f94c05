// Schemas: the graph's edges (input, weight, output), rows (embedding, gather), elementwise.
#include <cmath>

#include "compile/ir/ops.h"
#include "compile/ir/type_rules.h"

namespace kvern::ir {
namespace {

std::vector<Type> infer_input(Types, const Attrs& attrs) {
  const auto& a = attrs.as<InputAttrs>();
  want(!a.name.empty(), "an input needs a name");
  want(a.width >= 0, "width must be 0 (a vector) or positive, got {}", a.width);
  want(a.rows == kTokens || a.rows == kWanted, "rows must be '{}' or '{}', got '{}'", kTokens,
       kWanted, a.rows);
  want(static_cast<int>(a.dtype) < kNumDTypes, "dtype {} does not exist",
       static_cast<int>(a.dtype));
  std::vector<Dim> dims{Dim(a.rows)};
  if (a.width > 0) dims.emplace_back(a.width);
  return {Type::tensor(a.dtype, std::move(dims))};
}

std::vector<Type> infer_weight(Types, const Attrs& attrs) {
  const auto& a = attrs.as<WeightAttrs>();
  want(!a.name.empty(), "a weight needs a name");
  want_weight_shape(a.shape, a.name);
  return {Type::tensor(DType::kF32, {a.shape.begin(), a.shape.end()})};
}

std::vector<Type> infer_output(Types in, const Attrs& attrs) {
  want(!attrs.as<OutputAttrs>().name.empty(), "an output needs a name");
  want(!in[0].is_kv(), "x must be a tensor, got !kv");
  return {};
}

std::vector<Type> infer_embedding(Types in, const Attrs&) {
  want_tensor(in[0], "ids", DType::kI32, 1);
  want_constant(in[1], "table", 2);
  return {Type::tensor(DType::kF32, {in[0].dims[0], in[1].dims[1]})};
}

std::vector<Type> infer_gather_rows(Types in, const Attrs&) {
  want_tensor(in[0], "x", DType::kF32, 2);
  want_tensor(in[1], "rows", DType::kI32, 1);
  return {Type::tensor(DType::kF32, {in[1].dims[0], in[0].dims[1]})};
}

std::vector<Type> infer_split(Types in, const Attrs& attrs) {
  const auto& sizes = attrs.as<SplitAttrs>().sizes;
  want_tensor(in[0], "x", DType::kF32, 2);
  int64_t left = last_dim(in[0], "x");
  std::vector<Type> out;
  for (const int64_t size : sizes) {
    want(size > 0 && size <= left, "sizes {} do not fit x of {}", to_string(sizes),
         to_string(in[0]));
    left -= size;
    out.push_back(Type::tensor(DType::kF32, {in[0].dims[0], size}));
  }
  want(!out.empty() && left == 0, "sizes {} must add up to the last dim of x, {}", to_string(sizes),
       to_string(in[0]));
  return out;
}

std::vector<Type> infer_binary(Types in, const Attrs&) {
  want(!in[0].is_kv() && in[0].dtype == DType::kF32, "a must be an f32 tensor, got {}",
       to_string(in[0]));
  want_same(in[0], "a", in[1], "b");
  return {in[0]};
}

std::vector<Type> infer_unary(Types in, const Attrs&) {
  want(!in[0].is_kv() && in[0].dtype == DType::kF32, "x must be an f32 tensor, got {}",
       to_string(in[0]));
  return {in[0]};
}

std::vector<Type> infer_scale(Types in, const Attrs& attrs) {
  const float factor = attrs.as<FactorAttrs>().factor;
  want(std::isfinite(factor), "factor must be finite, got {}", factor);
  return infer_unary(in, attrs);
}

std::vector<Type> infer_softcap(Types in, const Attrs& attrs) {
  const float factor = attrs.as<FactorAttrs>().factor;
  want(factor > 0 && std::isfinite(factor), "factor must be positive, got {}", factor);
  return infer_unary(in, attrs);
}

}  // namespace

namespace ops {

const OpSchema kInput{"input", 0, 0, infer_input, defaults<InputAttrs>};
const OpSchema kWeight{"weight", 0, 0, infer_weight, defaults<WeightAttrs>};
const OpSchema kOutput{"output", 1, 1, infer_output, defaults<OutputAttrs>};
const OpSchema kEmbedding{"embedding", 2, 2, infer_embedding, defaults<NoAttrs>};
const OpSchema kGatherRows{"gather_rows", 2, 2, infer_gather_rows, defaults<NoAttrs>};
const OpSchema kSplit{"split", 1, 1, infer_split, defaults<SplitAttrs>};
const OpSchema kAdd{"add", 2, 2, infer_binary, defaults<NoAttrs>};
const OpSchema kMul{"mul", 2, 2, infer_binary, defaults<NoAttrs>};
const OpSchema kSilu{"silu", 1, 1, infer_unary, defaults<NoAttrs>};
const OpSchema kSiluMul{"silu_mul", 2, 2, infer_binary, defaults<NoAttrs>};
const OpSchema kGeluTanh{"gelu_tanh", 1, 1, infer_unary, defaults<NoAttrs>};
const OpSchema kGeluTanhMul{"gelu_tanh_mul", 2, 2, infer_binary, defaults<NoAttrs>};
const OpSchema kGeluErf{"gelu_erf", 1, 1, infer_unary, defaults<NoAttrs>};
const OpSchema kGeluErfMul{"gelu_erf_mul", 2, 2, infer_binary, defaults<NoAttrs>};
const OpSchema kRelu{"relu", 1, 1, infer_unary, defaults<NoAttrs>};
const OpSchema kQuickGelu{"quick_gelu", 1, 1, infer_unary, defaults<NoAttrs>};
const OpSchema kTanh{"tanh", 1, 1, infer_unary, defaults<NoAttrs>};
const OpSchema kSigmoid{"sigmoid", 1, 1, infer_unary, defaults<NoAttrs>};
const OpSchema kScale{"scale", 1, 1, infer_scale, defaults<FactorAttrs>};
const OpSchema kSoftcap{"softcap", 1, 1, infer_softcap, defaults<FactorAttrs>};

}  // namespace ops
}  // namespace kvern::ir
