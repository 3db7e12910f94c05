// Rules behind infer_tensor_node: shapes and types of outputs from those of inputs.
#pragma once

#include <optional>
#include <vector>

#include "compile/eval/tensor/tensor_eval.h"

namespace kvern::eval {

using Facts = std::vector<TensorFact>;

// What a rule is given: OpCall's counterpart without elements.
struct InferCall {
  const TensorNode& node;
  std::span<const TensorFact* const> inputs;

  bool has(size_t index) const { return index < inputs.size() && inputs[index] != nullptr; }
  const TensorFact& in(size_t index) const;  // throws naming the node when it is left out
  const Shape& shape(size_t index) const { return in(index).shape; }
  ElementType type(size_t index) const { return in(index).type; }
  int64_t rank(size_t index) const { return static_cast<int64_t>(shape(index).size()); }
  int64_t dim(size_t index, int64_t axis) const;  // axis may count from the end
  void want_rank(size_t index, int64_t least, int64_t most) const;
  // The elements; Error(kUnsupported) when they are not known.
  const Array& value(size_t index) const;
  std::vector<int64_t> integers(size_t index) const;
  // The integers of an attribute (older opsets) or of an input (newer ones); nothing: neither.
  std::optional<std::vector<int64_t>> attr_or_input(const char* attr, size_t index) const;
  int64_t axis(int64_t axis, int64_t rank) const;
  ElementType type_attr(const char* attr, ElementType otherwise) const;
  // Elements of a shape; throws for negative dims and above 2^62.
  int64_t count(const Shape& shape) const;
  Shape broadcast(const Shape& a, const Shape& b) const;
  Shape matmul(const Shape& a, const Shape& b) const;

  [[noreturn]] void fail(const std::string& problem) const;
  [[noreturn]] void unsupported(const std::string& problem) const;
};

using InferFn = Facts (*)(const InferCall& call);

// infer_elementwise.cpp
Facts infer_same(const InferCall& call);          // the type and shape of input 0
Facts infer_same_as_bool(const InferCall& call);  // its shape, bools
Facts infer_broadcast(const InferCall& call);     // of all inputs, the type of input 0
Facts infer_compare(const InferCall& call);
Facts infer_where(const InferCall& call);
Facts infer_cast(const InferCall& call);
Facts infer_cast_like(const InferCall& call);
Facts infer_dropout(const InferCall& call);
Facts infer_layer_norm(const InferCall& call);
Facts infer_rms_norm(const InferCall& call);
Facts infer_skip_norm(const InferCall& call);
Facts infer_reduce(const InferCall& call);
Facts infer_arg_extreme(const InferCall& call);
Facts infer_top_k(const InferCall& call);

// infer_layout.cpp
Facts infer_reshape(const InferCall& call);
Facts infer_flatten(const InferCall& call);
Facts infer_squeeze(const InferCall& call);
Facts infer_unsqueeze(const InferCall& call);
Facts infer_transpose(const InferCall& call);
Facts infer_concat(const InferCall& call);
Facts infer_split(const InferCall& call);
Facts infer_slice(const InferCall& call);
Facts infer_expand(const InferCall& call);
Facts infer_tile(const InferCall& call);
Facts infer_pad(const InferCall& call);
Facts infer_gather(const InferCall& call);
Facts infer_gather_elements(const InferCall& call);
Facts infer_gather_nd(const InferCall& call);

// infer_generate.cpp
Facts infer_constant(const InferCall& call);
Facts infer_constant_of_shape(const InferCall& call);
Facts infer_shape(const InferCall& call);
Facts infer_size(const InferCall& call);
Facts infer_range(const InferCall& call);
Facts infer_eye_like(const InferCall& call);
Facts infer_one_hot(const InferCall& call);

// infer_matmul.cpp: products and quantised ops
Facts infer_matmul(const InferCall& call);
Facts infer_fused_matmul(const InferCall& call);
Facts infer_gemm(const InferCall& call);
Facts infer_einsum(const InferCall& call);
Facts infer_matmul_integer(const InferCall& call);
Facts infer_matmul_integer_to_float(const InferCall& call);
Facts infer_qlinear_matmul(const InferCall& call);
Facts infer_matmul_n_bits(const InferCall& call);
Facts infer_quantize(const InferCall& call);
Facts infer_dequantize(const InferCall& call);
Facts infer_dynamic_quantize(const InferCall& call);
Facts infer_gather_block_quantized(const InferCall& call);

// infer_attention.cpp
Facts infer_attention(const InferCall& call);
Facts infer_causal_conv(const InferCall& call);
Facts infer_linear_attention(const InferCall& call);
Facts infer_group_query_attention(const InferCall& call);
Facts infer_multi_head_attention(const InferCall& call);
Facts infer_ms_attention(const InferCall& call);

}  // namespace kvern::eval
