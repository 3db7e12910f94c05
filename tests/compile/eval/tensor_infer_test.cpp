// Inferred types and shapes against evaluation. Each line is a node: `f[2, 3]` is a float array of
// ones, `i{…}` a vector of int64, `i(…)` one number, `b[…]` bools.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "compile/eval/tensor/infer.h"
#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"
#include "tests/compile/eval/tensor_cases.h"

namespace kvern::eval {
namespace {

constexpr const char* kNodes = R"(
Abs(f[2, 3])
IsNaN(f[2, 3])
Add(f[2, 1, 3], f[4, 1])
Pow(f[2, 1], i{2})
Less(f[3], f[2, 1])
And(b[2, 1], b[3])
Max(f[2, 1], f[3], f[1, 1, 1])
Where(b[2, 1], f[3], f[1, 1, 3])
Cast(f[2]) {to = 7}
CastLike(f[2], i{1})
Softmax(f[2, 3]) {axis = 0}
LayerNormalization(f[2, 3, 4], f[3, 4]) {axis = -2} 3
RMSNormalization(f[2, 3], f[3]) opset 23
SimplifiedLayerNormalization(f[2, 3], f[3]) 2
com.microsoft.SkipSimplifiedLayerNormalization(f[2, 3], f[2, 3], f[3]) opset 1 4
ReduceMean(f[2, 3, 4], i{1, -1})
ReduceMean(f[2, 3, 4]) {axes = [1], keepdims = 0} opset 13
ReduceSum(f[2, 3]) {keepdims = 0}
ReduceSum(f[2, 3]) {noop_with_empty_axes = 1}
ArgMax(f[2, 3]) {axis = -1, keepdims = 0}
TopK(f[2, 5], i{3}) 2
CumSum(f[2, 5], i(1))
Reshape(f[2, 3, 4], i{0, -1})
Reshape(f[2, 0], i{0, 4}) {allowzero = 1}
Flatten(f[2, 3, 4]) {axis = -1}
Squeeze(f[1, 3, 1])
Squeeze(f[1, 3, 1], i{-1})
Squeeze(f[1, 3, 1]) {axes = [0]} opset 11
Unsqueeze(f[3], i{0, -1})
Unsqueeze(f[3]) {axes = [1]} opset 11
Transpose(f[2, 3, 4])
Transpose(f[2, 3, 4]) {perm = [1, 0, 2]}
Concat(f[2, 3], f[2, 1]) {axis = -1}
Split(f[2, 7], i{3, 4}) {axis = 1} 2
Split(f[2, 7]) {axis = 1, num_outputs = 3} 3
Split(f[2, 6]) {axis = 1} opset 13 3
Slice(f[5, 4], i{1, -3}, i{99, -1})
Slice(f[5, 4], i{-1}, i{-99}, i{0}, i{-2})
Slice(f[5, 4], i{4}, i{1}, i{1})
Slice(f[5, 4], i{-9223372036854775808}, i{9223372036854775807}, i{1}, i{3})
Slice(f[5], i{9223372036854775807}, i{-9223372036854775808}, i{0}, i{-9223372036854775808})
Slice(f[5, 4]) {starts = [1], ends = [3]} opset 9
Expand(f[3, 1], i{2, 1, 4})
Expand(f[2, 3], i{1})
Tile(f[2, 3], i{2, 0})
Pad(f[2, 3], i{1, 0, 0, -1})
Pad(f[2, 3], i{1, 2}, f[], i{-1})
Gather(f[5, 4], i{0, -1}) {axis = 1}
Gather(f[5, 4], i(2))
GatherElements(f[2, 3], i[2, 1]) {axis = 1}
GatherND(f[2, 3, 4], i[5, 2])
GatherND(f[2, 3, 4], i[2, 1]) {batch_dims = 1}
ScatterND(f[4, 3], i[2, 1], f[2, 3])
Constant() {value_ints = [1, 2]}
Constant() {value = tensor float[1, 2] = {1, 2}}
ConstantOfShape(i{2, 3}) {value = tensor int64[1] = {7}}
Shape(f[2, 3, 4]) {start = 1, end = -1}
Shape(f[2, 3, 4]) {start = 5}
Size(f[2, 3])
Range(i(1), i(10), i(4))
Range(i(9), i(1), i(-3))
Range(i(9), i(10), i(-3))
EyeLike(f[2, 3]) {dtype = 7}
OneHot(i{0, 2}, i(4), f[2]) {axis = 0}
MatMul(f[2, 1, 3, 4], f[5, 4, 6])
MatMul(f[4], f[2, 4, 3])
MatMul(f[2, 4], f[4])
Gemm(f[4, 2], f[3, 4], f[3]) {transA = 1, transB = 1}
Einsum(f[2, 3, 4], f[2, 4, 5]) {equation = "b i j, b j k -> b i k"}
Einsum(f[2, 3, 4]) {equation = "...ii"} REFUSED
Einsum(f[2, 3, 3]) {equation = "...ii->...i"}
Einsum(f[3, 4], f[4, 5]) {equation = "ij,jk"}
com.microsoft.FusedMatMul(f[4, 2], f[3, 4]) {transA = 1, transB = 1} opset 1
DynamicQuantizeLinear(f[2, 3]) 3
Attention(f[1, 2, 3, 4], f[1, 2, 5, 4], f[1, 2, 5, 6]) opset 23 4
Attention(f[1, 3, 8], f[1, 5, 4], f[1, 5, 6], _, f[1, 1, 2, 4], f[1, 1, 2, 6]) {q_num_heads = 2, kv_num_heads = 1} opset 23 4
Dropout(f[2, 3]) 2
Trilu(f[2, 3])
NonZero(f[2, 3]) REFUSED
Gather(f[5, 4], i{0}) {axis = 2} REFUSED
Reshape(f[2, 3], i{4, -1}) REFUSED
Concat(f[2, 3], f[3, 1]) {axis = 1} REFUSED
Expand(f[2], i{-1}) REFUSED
Add(f[2], f[3]) REFUSED
MatMul(f[2, 3], f[2, 3]) REFUSED
Transpose(f[2, 3]) {perm = [0, 0]} REFUSED
Slice(f[5], i{0}, i{1}, i{0}, i{0}) REFUSED
ConstantOfShape(i{4611686018427387904, 4}) REFUSED
Range(i(0), i(5), i(0)) REFUSED
Split(f[7], i{3, 3}) {axis = 0} 2 REFUSED
)";

// `f[2, 3]` as the text of a constant.
std::string constant_of(const std::string& short_text) {
  const char kind = short_text[0];
  const std::string rest = short_text.substr(1);
  const char* type = kind == 'f' ? "float" : kind == 'b' ? "bool" : "int64";
  if (rest[0] == '[') {
    const std::string shape(rest);
    return rest == "[]" ? fmt::format("{}[] = {{1}}", type) : fmt::format("{}{} = 1", type, shape);
  }
  const std::string numbers = rest.substr(1, rest.size() - 2);
  if (rest[0] == '(') return fmt::format("{}[] = {{{}}}", type, numbers);
  const auto count = 1 + std::count(numbers.begin(), numbers.end(), ',');
  return fmt::format("{}[{}] = {{{}}}", type, count, numbers);
}

struct Line {
  TensorCase test;
  bool refused = false;
};

Line read_line(std::string line) {
  Line out;
  out.test.name = line;
  if (line.ends_with(" REFUSED")) {
    out.refused = true;
    line.resize(line.size() - 8);
  }
  int outputs = 1;
  if (line[line.size() - 2] == ' ' && std::isdigit(line.back()) != 0 &&
      !line.substr(0, line.size() - 2).ends_with("opset")) {
    outputs = line.back() - '0';
    line.resize(line.size() - 2);
  }
  const size_t open = line.find('(');
  size_t close = open;
  for (int depth = 0; close < line.size(); ++close) {
    if (line[close] == '(') ++depth;
    if (line[close] == ')' && --depth == 0) break;
  }
  std::string text, inputs;
  std::string args = line.substr(open + 1, close - open - 1);
  for (int i = 0; !args.empty(); ++i) {
    const size_t end = args[0] == '_' ? 1 : args.find_first_of("])}") + 1;
    const std::string one = args.substr(0, end);
    inputs += inputs.empty() ? "" : ", ";
    if (one == "_") {
      inputs += "_";
    } else {
      inputs += fmt::format("%x{}", i);
      text += fmt::format("const %x{} {}\n", i, constant_of(one));
    }
    args = args.substr(std::min(args.size(), end + 2));
  }
  for (int i = 0; i < outputs; ++i) text += fmt::format("{}%y{}", i == 0 ? "" : ", ", i);
  text += fmt::format(" = {}({}){}\n", line.substr(0, open), inputs, line.substr(close + 1));
  out.test.graph = ir::parse_tensor_graph(text, 18);
  return out;
}

TEST(TensorInfer, SaysWhatEvaluationGives) {
  std::istringstream lines(kNodes);
  std::string line;
  int read = 0;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    ++read;
    const Line one = read_line(line);
    std::string problem;
    try {
      problem = infer_tensor_case(one.test);
    } catch (const Error& error) {
      problem = one.refused ? "" : error.what();
    }
    EXPECT_EQ(problem, "") << line;
  }
  EXPECT_GT(read, 80);
}

// The rules refuse by themselves, before anything is computed.
TEST(TensorInfer, RefusesWithoutComputing) {
  std::istringstream lines(kNodes);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.ends_with(" REFUSED")) continue;
    const Line one = read_line(line);
    const TensorNode& node = one.test.graph.nodes[0];
    std::vector<TensorFact> facts;
    facts.reserve(node.inputs.size());
    std::vector<const TensorFact*> inputs;
    for (const ir::TensorValueId id : node.inputs) {
      const Array& array = one.test.graph.constants.at(id);
      const bool known = array.type() == ElementType::kInt64;
      facts.push_back({array.type(), array.shape(), known ? &array : nullptr});
      inputs.push_back(&facts.back());
    }
    EXPECT_THROW(infer_tensor_node(node, inputs), Error) << line;
  }
}

TEST(TensorInfer, NamesTheInputWhoseElementsAreWanted) {
  const Line one = read_line("Reshape(f[2, 3], i{3, 2})");
  const Array& shape = one.test.graph.constants.at(1);
  const TensorFact x{ElementType::kFloat, {2, 3}, nullptr};
  const TensorFact to{shape.type(), shape.shape(), nullptr};
  const TensorFact* const inputs[] = {&x, &to};
  try {
    infer_tensor_node(one.test.graph.nodes[0], inputs);
    FAIL() << "inferred from nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("elements of input 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvern::eval
