// Schemas: rotary positions.
#include "compile/ir/ops.h"
#include "compile/ir/type_rules.h"

namespace kvern::ir {
namespace {

void want_scaling(const RopeFrequencyAttrs& a) {
  want(a.scaling <= FrequencyScaling::kLlama3, "scaling {} does not exist",
       static_cast<int>(a.scaling));
  if (a.scaling == FrequencyScaling::kNone) return;
  want(a.factor > 0 && a.factor < 1e30, "factor must be positive, got {}", a.factor);
  if (a.scaling == FrequencyScaling::kLinear) return;
  want(a.low > 0 && a.low < a.high && a.high < 1e30,
       "low and high must be positive and rising, got {} and {}", a.low, a.high);
  want_positive(a.original, "original context length");
}

std::vector<Type> infer_rope_frequencies(Types in, const Attrs& attrs) {
  const auto& a = attrs.as<RopeFrequencyAttrs>();
  want(a.base > 0 && a.base < 1e30, "base must be positive, got {}", a.base);
  want(a.rotary_dim > 0 && a.rotary_dim % 2 == 0 && a.rotary_dim <= (1 << 24),
       "rotary_dim must be positive and even, got {}", a.rotary_dim);
  want_scaling(a);
  const Type frequencies = Type::tensor(DType::kF32, {a.rotary_dim / 2});
  if (in.size() == 1) want_same(in[0], "divisors", frequencies, "the frequencies");
  return {frequencies};
}

std::vector<Type> infer_rope_angles(Types in, const Attrs&) {
  want_tensor(in[0], "positions", DType::kI32, 1);
  want_constant(in[1], "frequencies", 1);
  const Type angles = Type::tensor(DType::kF32, {in[0].dims[0], in[1].dims[0]});
  return {angles, angles};
}

std::vector<Type> infer_rope(Types in, const Attrs& attrs) {
  const auto& a = attrs.as<RopeAttrs>();
  want_rows(in[0], "x", heads_width(a.heads, a.head_dim, "rope"));
  want_tensor(in[1], "cos", DType::kF32, 2);
  want_same(in[1], "cos", in[2], "sin");
  want_same_rows(in[0], "x", in[1], "cos");
  want(2 * last_dim(in[1], "cos") <= a.head_dim,
       "cos of {} turns more than the {} elements of a head", to_string(in[1]), a.head_dim);
  return {in[0]};
}

}  // namespace

namespace ops {

const OpSchema kRopeFrequencies{"rope_frequencies", 0, 1, infer_rope_frequencies,
                                defaults<RopeFrequencyAttrs>};
const OpSchema kRopeAngles{"rope_angles", 2, 2, infer_rope_angles, defaults<NoAttrs>};
const OpSchema kRope{"rope", 3, 3, infer_rope, defaults<RopeAttrs>};

}  // namespace ops
}  // namespace kvern::ir
