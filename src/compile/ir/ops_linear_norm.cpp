// Schemas: linear layers and norms.
#include "compile/ir/ops.h"
#include "compile/ir/type_rules.h"

namespace kvern::ir {
namespace {

std::vector<Type> infer_linear(Types in, const Attrs&) {
  want_tensor(in[0], "x", DType::kF32, 2);
  want_constant(in[1], "w", 2);
  const Dim& n = in[1].dims[0];
  const Dim& k = in[1].dims[1];
  want(in[0].dims[1] == k, "x is {} and w is {}; their last dims must be equal", to_string(in[0]),
       to_string(in[1]));
  if (in.size() == 3) {
    want_constant(in[2], "bias", 1);
    want(in[2].dims[0] == n, "bias must have w's {} rows, got {}", n.value(), to_string(in[2]));
  }
  return {Type::tensor(DType::kF32, {in[0].dims[0], n})};
}

void want_norm(const Type& x, const Type& gamma, const NormAttrs& a) {
  want_tensor(x, "x", DType::kF32, 2);
  want_constant(gamma, "gamma", 1);
  const int64_t width = heads_width(a.heads, gamma.dims[0].value(), "gamma");
  want(x.dims[1] == Dim(width), "gamma must be as wide as one of x's {} heads, {}, got {}", a.heads,
       to_string(x), to_string(gamma));
  want(a.eps >= 0 && a.eps < 1, "eps must be in [0, 1), got {}", a.eps);
}

void want_one_head(const NormAttrs& a) {
  want(a.heads == 1, "only rms_norm norms heads alone, got {} heads", a.heads);
}

std::vector<Type> infer_rms_norm(Types in, const Attrs& attrs) {
  want_norm(in[0], in[1], attrs.as<NormAttrs>());
  return {in[0]};
}

std::vector<Type> infer_add_rms_norm(Types in, const Attrs& attrs) {
  want_same(in[0], "x", in[1], "residual");
  want_norm(in[0], in[2], attrs.as<NormAttrs>());
  want_one_head(attrs.as<NormAttrs>());
  return {in[0], in[0]};
}

std::vector<Type> infer_layer_norm(Types in, const Attrs& attrs) {
  want_norm(in[0], in[1], attrs.as<NormAttrs>());
  want_one_head(attrs.as<NormAttrs>());
  if (in.size() == 3) want_same(in[1], "gamma", in[2], "beta");
  return {in[0]};
}

}  // namespace

namespace ops {

const OpSchema kLinear{"linear", 2, 3, infer_linear, defaults<NoAttrs>};
const OpSchema kRmsNorm{"rms_norm", 2, 2, infer_rms_norm, defaults<NormAttrs>};
const OpSchema kAddRmsNorm{"add_rms_norm", 3, 3, infer_add_rms_norm, defaults<NormAttrs>};
const OpSchema kLayerNorm{"layer_norm", 2, 3, infer_layer_norm, defaults<NormAttrs>};

}  // namespace ops
}  // namespace kvern::ir
