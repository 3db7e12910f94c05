#include "compile/eval/tensor/infer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

// One line for all opsets: where an op moved an attribute to an input, its rule looks at both.
struct InferRow {
  const char* domain;
  const char* op;
  InferFn infer;
};

constexpr const char* kMs = "com.microsoft";

constexpr InferRow kRows[] = {
    {"", "Abs", infer_same},
    {"", "Acos", infer_same},
    {"", "Acosh", infer_same},
    {"", "Asin", infer_same},
    {"", "Asinh", infer_same},
    {"", "Atan", infer_same},
    {"", "Atanh", infer_same},
    {"", "BitwiseNot", infer_same},
    {"", "Ceil", infer_same},
    {"", "Celu", infer_same},
    {"", "Clip", infer_same},
    {"", "Cos", infer_same},
    {"", "Cosh", infer_same},
    {"", "CumProd", infer_same},
    {"", "CumSum", infer_same},
    {"", "Elu", infer_same},
    {"", "Erf", infer_same},
    {"", "Exp", infer_same},
    {"", "Floor", infer_same},
    {"", "Gelu", infer_same},
    {"", "GroupNormalization", infer_same},
    {"", "HardSigmoid", infer_same},
    {"", "HardSwish", infer_same},
    {"", "Hardmax", infer_same},
    {"", "Identity", infer_same},
    {"", "InstanceNormalization", infer_same},
    {"", "LeakyRelu", infer_same},
    {"", "Log", infer_same},
    {"", "LogSoftmax", infer_same},
    {"", "LpNormalization", infer_same},
    {"", "MeanVarianceNormalization", infer_same},
    {"", "Mish", infer_same},
    {"", "Neg", infer_same},
    {"", "Not", infer_same},
    {"", "PRelu", infer_same},
    {"", "Reciprocal", infer_same},
    {"", "Relu", infer_same},
    {"", "RotaryEmbedding", infer_same},
    {"", "Round", infer_same},
    {"", "ScatterElements", infer_same},
    {"", "Scatter", infer_same},
    {"", "ScatterND", infer_same},
    {"", "Selu", infer_same},
    {"", "Shrink", infer_same},
    {"", "Sigmoid", infer_same},
    {"", "Sign", infer_same},
    {"", "Sin", infer_same},
    {"", "Sinh", infer_same},
    {"", "Softmax", infer_same},
    {"", "Softplus", infer_same},
    {"", "Softsign", infer_same},
    {"", "Sqrt", infer_same},
    {"", "Swish", infer_same},
    {"", "Tan", infer_same},
    {"", "Tanh", infer_same},
    {"", "TensorScatter", infer_same},
    {"", "ThresholdedRelu", infer_same},
    {"", "Trilu", infer_same},
    {kMs, "BiasGelu", infer_same},
    {kMs, "FastGelu", infer_same},
    {kMs, "Gelu", infer_same},
    {kMs, "QuickGelu", infer_same},
    {kMs, "RotaryEmbedding", infer_same},

    {"", "IsInf", infer_same_as_bool},
    {"", "IsNaN", infer_same_as_bool},

    {"", "Add", infer_broadcast},
    {"", "And", infer_broadcast},
    {"", "BitShift", infer_broadcast},
    {"", "BitwiseAnd", infer_broadcast},
    {"", "BitwiseOr", infer_broadcast},
    {"", "BitwiseXor", infer_broadcast},
    {"", "Div", infer_broadcast},
    {"", "Max", infer_broadcast},
    {"", "Mean", infer_broadcast},
    {"", "Min", infer_broadcast},
    {"", "Mod", infer_broadcast},
    {"", "Mul", infer_broadcast},
    {"", "Or", infer_broadcast},
    {"", "Pow", infer_broadcast},
    {"", "Sub", infer_broadcast},
    {"", "Sum", infer_broadcast},
    {"", "Xor", infer_broadcast},

    {"", "Equal", infer_compare},
    {"", "Greater", infer_compare},
    {"", "GreaterOrEqual", infer_compare},
    {"", "Less", infer_compare},
    {"", "LessOrEqual", infer_compare},

    {"", "Cast", infer_cast},
    {"", "CastLike", infer_cast_like},
    {"", "BitCast", infer_cast},
    {"", "Dropout", infer_dropout},
    {"", "Where", infer_where},

    {"", "LayerNormalization", infer_layer_norm},
    {"", "RMSNormalization", infer_rms_norm},
    {"", "SimplifiedLayerNormalization", infer_rms_norm},
    {kMs, "SkipLayerNormalization", infer_skip_norm},
    {kMs, "SkipSimplifiedLayerNormalization", infer_skip_norm},

    {"", "ArgMax", infer_arg_extreme},
    {"", "ArgMin", infer_arg_extreme},
    {"", "ReduceL1", infer_reduce},
    {"", "ReduceL2", infer_reduce},
    {"", "ReduceLogSum", infer_reduce},
    {"", "ReduceLogSumExp", infer_reduce},
    {"", "ReduceMax", infer_reduce},
    {"", "ReduceMean", infer_reduce},
    {"", "ReduceMin", infer_reduce},
    {"", "ReduceProd", infer_reduce},
    {"", "ReduceSum", infer_reduce},
    {"", "ReduceSumSquare", infer_reduce},
    {"", "TopK", infer_top_k},

    {"", "Concat", infer_concat},
    {"", "Expand", infer_expand},
    {"", "Flatten", infer_flatten},
    {"", "Gather", infer_gather},
    {"", "GatherElements", infer_gather_elements},
    {"", "GatherND", infer_gather_nd},
    {"", "Pad", infer_pad},
    {"", "Reshape", infer_reshape},
    {"", "Slice", infer_slice},
    {"", "Split", infer_split},
    {"", "Squeeze", infer_squeeze},
    {"", "Tile", infer_tile},
    {"", "Transpose", infer_transpose},
    {"", "Unsqueeze", infer_unsqueeze},

    {"", "Constant", infer_constant},
    {"", "ConstantOfShape", infer_constant_of_shape},
    {"", "EyeLike", infer_eye_like},
    {"", "OneHot", infer_one_hot},
    {"", "Range", infer_range},
    {"", "Shape", infer_shape},
    {"", "Size", infer_size},

    {"", "Einsum", infer_einsum},
    {"", "Gemm", infer_gemm},
    {"", "MatMul", infer_matmul},
    {"", "MatMulInteger", infer_matmul_integer},
    {"", "QLinearMatMul", infer_qlinear_matmul},
    {"", "QuantizeLinear", infer_quantize},
    {"", "DequantizeLinear", infer_dequantize},
    {"", "DynamicQuantizeLinear", infer_dynamic_quantize},
    {kMs, "FusedMatMul", infer_fused_matmul},
    {kMs, "TransposeMatMul", infer_fused_matmul},
    {kMs, "MatMulNBits", infer_matmul_n_bits},
    {kMs, "DynamicQuantizeMatMul", infer_matmul},
    {kMs, "MatMulIntegerToFloat", infer_matmul_integer_to_float},
    {kMs, "QuantizeLinear", infer_quantize},
    {kMs, "DequantizeLinear", infer_dequantize},
    {kMs, "GatherBlockQuantized", infer_gather_block_quantized},

    {"", "Attention", infer_attention},
    {"", "CausalConvWithState", infer_causal_conv},
    {"", "LinearAttention", infer_linear_attention},
    {kMs, "Attention", infer_ms_attention},
    {kMs, "GroupQueryAttention", infer_group_query_attention},
    {kMs, "MultiHeadAttention", infer_multi_head_attention},
};

const InferRow* find_row(const TensorNode& node) {
  for (const InferRow& row : kRows) {
    if (node.op == row.op && node.domain == row.domain) return &row;
  }
  return nullptr;
}

// For the few ops whose shapes follow from elements alone (NonZero, Compress, …).
Facts infer_by_evaluation(const InferCall& call) {
  std::vector<const Array*> arrays;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool unknown = call.has(i) && call.in(i).value == nullptr;
    if (unknown) call.unsupported("the shape of its output depends on elements of its inputs");
    arrays.push_back(call.has(i) ? call.in(i).value : nullptr);
  }
  Facts out;
  for (const Array& array : run_tensor_node(call.node, arrays)) {
    out.push_back({array.type(), array.shape(), nullptr});
  }
  return out;
}

}  // namespace

const TensorFact& InferCall::in(size_t index) const {
  if (!has(index)) fail(fmt::format("input {} is wanted and left out", index));
  return *inputs[index];
}

int64_t InferCall::dim(size_t index, int64_t at) const {
  return shape(index)[static_cast<size_t>(axis(at, rank(index)))];
}

void InferCall::want_rank(size_t index, int64_t least, int64_t most) const {
  if (rank(index) >= least && rank(index) <= most) return;
  fail(fmt::format("input {} has shape {}; its rank must be {} to {}", index,
                   to_string(shape(index)), least, most));
}

const Array& InferCall::value(size_t index) const {
  const TensorFact& fact = in(index);
  if (fact.value == nullptr) {
    unsupported(fmt::format("the shape of its output depends on the elements of input {}", index));
  }
  return *fact.value;
}

std::vector<int64_t> InferCall::integers(size_t index) const {
  return value(index).to_i64();
}

std::optional<std::vector<int64_t>> InferCall::attr_or_input(const char* attr, size_t index) const {
  if (node.has(attr)) return node.ints(attr);
  if (has(index)) return integers(index);
  return std::nullopt;
}

int64_t InferCall::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    fail(fmt::format("axis {} is not in [-{}, {})", axis, rank, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

ElementType InferCall::type_attr(const char* attr, ElementType otherwise) const {
  const int64_t code = node.i(attr, 0);
  if (code == 0) return otherwise;
  const auto type = static_cast<ElementType>(code);
  if (code < 0 || code > 100 || ir::element_bytes(type) == 0) {
    unsupported(fmt::format("attribute '{}' names the element type {}", attr, code));
  }
  return type;
}

int64_t InferCall::count(const Shape& shape) const {
  uint64_t count = 1;
  for (const int64_t dim : shape) {
    const auto product = checked_mul(count, static_cast<uint64_t>(dim));
    if (dim < 0 || !product || *product > (uint64_t{1} << 62)) {
      fail(fmt::format("a shape of {} is out of bounds", to_string(shape)));
    }
    count = *product;
  }
  return static_cast<int64_t>(count);
}

Shape InferCall::broadcast(const Shape& a, const Shape& b) const {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank, 1);
  for (size_t i = 0; i < rank; ++i) {  // from the end
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) {
      fail(fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)));
    }
    out[rank - 1 - i] = left == 1 ? right : left;
  }
  return out;
}

void InferCall::fail(const std::string& problem) const {
  throw Error(Code::kInvalidModel, fmt::format("onnx: {}: {}", node.who(), problem));
}

void InferCall::unsupported(const std::string& problem) const {
  throw Error(Code::kUnsupported, fmt::format("onnx: {}: {}", node.who(), problem));
}

std::vector<TensorFact> infer_tensor_node(const TensorNode& node,
                                          std::span<const TensorFact* const> inputs) {
  const InferCall call{node, inputs};
  const InferRow* row = find_row(node);
  return row == nullptr ? infer_by_evaluation(call) : row->infer(call);
}

}  // namespace kvern::eval
