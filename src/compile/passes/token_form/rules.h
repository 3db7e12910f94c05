// The rules of the walk, one per op that may read activations. A rule gives the node's outputs; an
// output that stays unexplained is opaque, with the reason.
#pragma once

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

using Values = std::vector<Value>;

Values rule_layout(const RuleCall& call);
Values rule_same(const RuleCall& call);  // Identity, Cast of floats, Dropout
Values rule_gather(const RuleCall& call);
Values rule_where(const RuleCall& call);
Values rule_unary(const RuleCall& call);
Values rule_binary(const RuleCall& call);
Values rule_clip(const RuleCall& call);
Values rule_gelu(const RuleCall& call);
Values rule_matmul(const RuleCall& call);
Values rule_gemm(const RuleCall& call);
Values rule_matmul_nbits(const RuleCall& call);
Values rule_gather_block_quantized(const RuleCall& call);
Values rule_quantize(const RuleCall& call);
Values rule_dequantize(const RuleCall& call);
Values rule_dynamic_quantize(const RuleCall& call);
Values rule_matmul_integer(const RuleCall& call);
Values rule_matmul_integer_to_float(const RuleCall& call);
Values rule_dynamic_quantize_matmul(const RuleCall& call);
Values rule_qlinear_matmul(const RuleCall& call);
// Functions of single elements, comparisons and choices by activations.
Values rule_function(const RuleCall& call);
// Sums, means, … over features, where no norm or attention has a use for them.
Values rule_reduce(const RuleCall& call);
Values rule_softmax_of_features(const RuleCall& call);
Values rule_reduce_mean(const RuleCall& call);
Values rule_norm(const RuleCall& call);
Values rule_skip_norm(const RuleCall& call);
Values rule_reduce_max(const RuleCall& call);
Values rule_softmax(const RuleCall& call);
Values rule_attention(const RuleCall& call);
Values rule_group_query_attention(const RuleCall& call);
Values rule_multi_head_attention(const RuleCall& call);
Values rule_rotary(const RuleCall& call);

// Parts that rules share.
// What f(x) = scale * x is; x null for any other function.
ScaledView scaled_view_of(const std::shared_ptr<const View>& x, const Expr& f);
std::shared_ptr<const View> times_number(const View& x, double factor);
// x over its last axis, normed; `x` becomes a view.
Value make_norm(const RuleCall& call, const View& x, ir::ElementType type,
                const std::vector<Shape>& shapes, bool layer_norm, double eps);
// The view as a linear layer's input, times a weight [n, k].
Value make_linear(const RuleCall& call, const View& x, std::shared_ptr<const Provenance> weight,
                  ir::ElementType type, std::vector<Shape> shapes);
Value add_values(const RuleCall& call, Value& a, Value& b);
// Rows of a table [vocabulary, features] that the ids choose.
Value make_embedding(const RuleCall& call, Value& ids, std::shared_ptr<const Provenance> table,
                     ir::ElementType type, std::vector<Shape> shapes);
// f(x) over the elements of a value, token by token; written at once where `now`.
Value rounded(const RuleCall& call, Value& x, ir::ElementType type, bool now,
              const std::function<ExprPtr(ExprPtr)>& f);
// A linear layer over unscaled codes takes their scales; nothing for any other x.
std::optional<Value> scale_codes(const RuleCall& call, const Value& x, Value& scale,
                                 const std::vector<Shape>& shapes);
// Multiplies or adds a constant vector over features; of a norm or linear its gamma, beta or bias.
Value with_vector(const RuleCall& call, Value& x, Value& vector, bool multiply,
                  std::vector<Shape> shapes);
Value scores_with(const RuleCall& call, Value& scores, Value& other, std::vector<Shape> shapes);

// Runs one op on values, as if it were a node: for fused ops that are several.
Value run_op(const RuleCall& call, const char* op, int64_t opset, std::vector<Value> inputs,
             std::map<std::string, ir::TensorAttr> attrs = {});
Value constant_i64(const RuleCall& call, std::vector<int64_t> values);

}  // namespace kvern::passes::token_form
