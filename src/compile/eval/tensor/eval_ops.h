// The functions behind op_table.cpp. One that serves several ops looks at call.node.op.
#pragma once

#include <vector>

#include "compile/eval/tensor/tensor_eval.h"

namespace kvern::eval {

using Arrays = std::vector<Array>;

// elementwise*.cpp
Arrays eval_float_unary(const OpCall& call);  // Sqrt, Erf, Sigmoid, …
Arrays eval_sign_unary(const OpCall& call);   // Neg, Abs, Sign, Relu: integers too
Arrays eval_is_nan_or_inf(const OpCall& call);
Arrays eval_arithmetic(const OpCall& call);  // Add, Sub, Mul, Div
Arrays eval_mod(const OpCall& call);
Arrays eval_pow(const OpCall& call);
Arrays eval_compare(const OpCall& call);   // Equal, Less, …
Arrays eval_bits(const OpCall& call);      // And, Or, Xor, Bitwise…, BitShift
Arrays eval_not(const OpCall& call);       // Not, BitwiseNot
Arrays eval_variadic(const OpCall& call);  // Min, Max, Sum, Mean
Arrays eval_clip(const OpCall& call);
Arrays eval_where(const OpCall& call);
Arrays eval_prelu(const OpCall& call);

// cast.cpp
Arrays eval_cast(const OpCall& call);
Arrays eval_cast_like(const OpCall& call);
Arrays eval_bit_cast(const OpCall& call);

// shape_ops.cpp
Arrays eval_shape(const OpCall& call);
Arrays eval_size(const OpCall& call);
Arrays eval_reshape(const OpCall& call);
Arrays eval_flatten(const OpCall& call);
Arrays eval_squeeze(const OpCall& call);
Arrays eval_unsqueeze(const OpCall& call);
Arrays eval_identity(const OpCall& call);  // Identity, Dropout at inference

// layout_ops.cpp
Arrays eval_transpose(const OpCall& call);
Arrays eval_concat(const OpCall& call);
Arrays eval_split(const OpCall& call);
Arrays eval_slice(const OpCall& call);
Arrays eval_expand(const OpCall& call);
Arrays eval_tile(const OpCall& call);
Arrays eval_pad(const OpCall& call);
Arrays eval_trilu(const OpCall& call);

// gather_ops.cpp, scatter_ops.cpp
Arrays eval_gather(const OpCall& call);
Arrays eval_gather_elements(const OpCall& call);
Arrays eval_gather_nd(const OpCall& call);
Arrays eval_compress(const OpCall& call);
Arrays eval_scatter_nd(const OpCall& call);
Arrays eval_scatter_elements(const OpCall& call);
Arrays eval_tensor_scatter(const OpCall& call);

// generate_ops.cpp
Arrays eval_constant(const OpCall& call);
Arrays eval_constant_of_shape(const OpCall& call);
Arrays eval_range(const OpCall& call);
Arrays eval_eye_like(const OpCall& call);
Arrays eval_one_hot(const OpCall& call);
Arrays eval_non_zero(const OpCall& call);

// reduce.cpp, along_axis.cpp, softmax.cpp
Arrays eval_reduce(const OpCall& call);
Arrays eval_arg_extreme(const OpCall& call);  // ArgMax, ArgMin
Arrays eval_top_k(const OpCall& call);
Arrays eval_cumulative(const OpCall& call);  // CumSum, CumProd
Arrays eval_softmax(const OpCall& call);     // Softmax, LogSoftmax, Hardmax

// matmul.cpp, einsum.cpp
Arrays eval_matmul(const OpCall& call);
Arrays eval_gemm(const OpCall& call);
Arrays eval_einsum(const OpCall& call);

}  // namespace kvern::eval
