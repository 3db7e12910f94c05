#include "compile/passes/token_form/rules.h"

#include <fmt/format.h>

namespace kvern::passes::token_form {
namespace {

struct Line {
  std::string_view domain;
  std::string_view op;
  Rule rule;
};

constexpr std::string_view kMicrosoft = "com.microsoft";

constexpr Line kRules[] = {
    {"", "Abs", rule_function},
    {"", "Add", rule_binary},
    {"", "And", rule_function},
    {"", "Attention", rule_attention},
    {"", "Cast", rule_same},
    {"", "CastLike", rule_same},
    {"", "Ceil", rule_function},
    {"", "Celu", rule_function},
    {"", "Clip", rule_clip},
    {"", "Concat", rule_layout},
    {"", "Cos", rule_unary},
    {"", "Cosh", rule_function},
    {"", "DequantizeLinear", rule_dequantize},
    {"", "Div", rule_binary},
    {"", "Dropout", rule_same},
    {"", "DynamicQuantizeLinear", rule_dynamic_quantize},
    {"", "Elu", rule_function},
    {"", "Equal", rule_function},
    {"", "Erf", rule_unary},
    {"", "Exp", rule_unary},
    {"", "Expand", rule_layout},
    {"", "Flatten", rule_layout},
    {"", "Floor", rule_function},
    {"", "Gather", rule_gather},
    {"", "GatherElements", rule_layout},
    {"", "GatherND", rule_layout},
    {"", "Gelu", rule_gelu},
    {"", "Gemm", rule_gemm},
    {"", "Greater", rule_function},
    {"", "GreaterOrEqual", rule_function},
    {"", "HardSigmoid", rule_function},
    {"", "HardSwish", rule_function},
    {"", "Identity", rule_same},
    {"", "IsNaN", rule_unary},
    {"", "LayerNormalization", rule_norm},
    {"", "LeakyRelu", rule_function},
    {"", "Less", rule_function},
    {"", "LessOrEqual", rule_function},
    {"", "Log", rule_function},
    {"", "LogSoftmax", rule_softmax_of_features},
    {"", "MatMul", rule_matmul},
    {"", "MatMulInteger", rule_matmul_integer},
    {"", "Max", rule_binary},
    {"", "Min", rule_binary},
    {"", "Mish", rule_function},
    {"", "Mul", rule_binary},
    {"", "Neg", rule_unary},
    {"", "Not", rule_function},
    {"", "Or", rule_function},
    {"", "PRelu", rule_function},
    {"", "Pow", rule_binary},
    {"", "QLinearMatMul", rule_qlinear_matmul},
    {"", "QuantizeLinear", rule_quantize},
    {"", "RMSNormalization", rule_norm},
    {"", "Reciprocal", rule_unary},
    {"", "ReduceL1", rule_reduce},
    {"", "ReduceL2", rule_reduce},
    {"", "ReduceLogSum", rule_reduce},
    {"", "ReduceLogSumExp", rule_reduce},
    {"", "ReduceMax", rule_reduce_max},
    {"", "ReduceMean", rule_reduce_mean},
    {"", "ReduceMin", rule_reduce},
    {"", "ReduceProd", rule_reduce},
    {"", "ReduceSum", rule_reduce},
    {"", "ReduceSumSquare", rule_reduce},
    {"", "Relu", rule_unary},
    {"", "Reshape", rule_layout},
    {"", "RotaryEmbedding", rule_rotary},
    {"", "Round", rule_function},
    {"", "ScatterElements", rule_layout},
    {"", "ScatterND", rule_layout},
    {"", "Selu", rule_function},
    {"", "Sigmoid", rule_unary},
    {"", "Sign", rule_function},
    {"", "SimplifiedLayerNormalization", rule_norm},
    {"", "Sin", rule_unary},
    {"", "Sinh", rule_function},
    {"", "Slice", rule_layout},
    {"", "Softmax", rule_softmax},
    {"", "Softplus", rule_function},
    {"", "Softsign", rule_function},
    {"", "Split", rule_layout},
    {"", "Sqrt", rule_unary},
    {"", "Squeeze", rule_layout},
    {"", "Sub", rule_binary},
    {"", "Sum", rule_binary},
    {"", "Swish", rule_gelu},
    {"", "Tan", rule_function},
    {"", "Tanh", rule_unary},
    {"", "TensorScatter", rule_layout},
    {"", "ThresholdedRelu", rule_function},
    {"", "Tile", rule_layout},
    {"", "Transpose", rule_layout},
    {"", "Unsqueeze", rule_layout},
    {"", "Where", rule_where},
    {"", "Xor", rule_function},
    {kMicrosoft, "DequantizeLinear", rule_dequantize},
    {kMicrosoft, "DynamicQuantizeMatMul", rule_dynamic_quantize_matmul},
    {kMicrosoft, "FastGelu", rule_gelu},
    {kMicrosoft, "BiasGelu", rule_gelu},
    {kMicrosoft, "FusedMatMul", rule_matmul},
    {kMicrosoft, "GatherBlockQuantized", rule_gather_block_quantized},
    {kMicrosoft, "Gelu", rule_gelu},
    {kMicrosoft, "GroupQueryAttention", rule_group_query_attention},
    {kMicrosoft, "MatMulIntegerToFloat", rule_matmul_integer_to_float},
    {kMicrosoft, "MatMulNBits", rule_matmul_nbits},
    {kMicrosoft, "MultiHeadAttention", rule_multi_head_attention},
    {kMicrosoft, "QuantizeLinear", rule_quantize},
    {kMicrosoft, "QuickGelu", rule_gelu},
    {kMicrosoft, "RotaryEmbedding", rule_rotary},
    {kMicrosoft, "SimplifiedLayerNormalization", rule_norm},
    {kMicrosoft, "SkipLayerNormalization", rule_skip_norm},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", rule_skip_norm},
};

}  // namespace

Rule find_rule(const ir::TensorNode& node) {
  for (const Line& line : kRules) {
    if (line.domain == node.domain && line.op == node.op) return line.rule;
  }
  return nullptr;
}

Value run_op(const RuleCall& call, const char* op, int64_t opset, std::vector<Value> inputs,
             std::map<std::string, ir::TensorAttr> attrs) {
  ir::TensorNode node;
  node.op = op;
  node.opset = opset;
  node.name = call.node.name;
  node.attrs = std::move(attrs);
  node.outputs = {0};
  std::vector<Value*> pointers;
  bool constant = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(static_cast<ir::TensorValueId>(i));
    pointers.push_back(&inputs[i]);
    if (inputs[i].is_opaque()) return inputs[i];
    constant = constant && inputs[i].known() != nullptr;
  }
  const RuleCall inner{call.walk, node, pointers};
  if (constant) return fold_node(inner);
  return find_rule(node)(inner).at(0);
}

Value constant_i64(const RuleCall& call, std::vector<int64_t> values) {
  Value value = known(ir::ElementType::kInt64, {ir::Array::vector_i64(std::move(values))});
  value.shapes.resize(call.walk.worlds.size(), value.shapes[0]);
  return value;
}

}  // namespace kvern::passes::token_form
