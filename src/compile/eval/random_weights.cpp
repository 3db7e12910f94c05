#include <cmath>

#include "base/check.h"
#include "base/hash.h"
#include "compile/eval/eval.h"
#include "compile/eval/node_eval.h"

namespace kvern::eval {
namespace {

// splitmix64 of a counter, to [-1, 1).
float uniform(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<float>(static_cast<double>(z >> 40) / 8388608.0 - 1.0);
}

// Matrices of variance 1 / cols keep activations near 1; vectors (norms, biases) lie around 1.
HostTensor random_source(const ir::WeightSource& source, uint64_t seed) {
  HostTensor out = f32_tensor(source.shape);
  const uint64_t own = hash64(source.name, seed);
  const bool matrix = source.shape.size() == 2;
  const float scale = matrix ? std::sqrt(3.0f / static_cast<float>(source.shape[1])) : 0.2f;
  for (size_t i = 0; i < out.f32.size(); ++i) {
    out.f32[i] = scale * uniform(own, i) + (matrix ? 0.0f : 1.0f);
  }
  return out;
}

HostTensor concat_rows(const std::vector<HostTensor>& values, const ir::RecipeNode& node) {
  HostTensor out;
  for (const int32_t input : node.inputs) {
    const HostTensor& next = values[static_cast<size_t>(input)];
    if (out.shape.empty())
      out.shape = next.shape;
    else
      out.shape[0] += next.shape[0];
    out.f32.insert(out.f32.end(), next.f32.begin(), next.f32.end());
  }
  return out;
}

HostTensor move_rows(const HostTensor& in, const ir::RecipeNode& node) {
  Shape shape = in.shape;
  shape[0] = ir::num_moved_rows(node, in.shape[0]);
  HostTensor out = f32_tensor(shape);
  const int64_t cols = in.shape.size() == 2 ? in.shape[1] : 1;
  for (int64_t row = 0; row < shape[0]; ++row) {
    const int64_t from = ir::moved_row(node, row, in.shape[0]);
    std::copy_n(in.f32.begin() + from * cols, cols, out.f32.begin() + row * cols);
  }
  return out;
}

HostTensor transpose(const HostTensor& in) {
  HostTensor out = f32_tensor({in.shape.at(1), in.shape.at(0)});
  for (size_t i = 0; i < in.f32.size(); ++i) {
    const size_t cols = static_cast<size_t>(in.shape[1]);
    out.f32[i % cols * static_cast<size_t>(in.shape[0]) + i / cols] = in.f32[i];
  }
  return out;
}

// Codes are random as they are; scales would add nothing.
HostTensor dequantize(const HostTensor& codes, const ir::RecipeNode& node) {
  HostTensor out = f32_tensor({codes.shape[0], node.num_cols});
  for (int64_t row = 0; row < codes.shape[0]; ++row) {
    std::copy_n(codes.f32.begin() + row * codes.shape[1], node.num_cols,
                out.f32.begin() + row * node.num_cols);
  }
  return node.transposed ? transpose(out) : out;
}

HostTensor add_offset(HostTensor in, double offset) {
  for (float& value : in.f32) value += static_cast<float>(offset);
  return in;
}

HostTensor literal(const ir::RecipeNode& node) {
  HostTensor out = f32_tensor({static_cast<int64_t>(node.values.size())});
  for (size_t i = 0; i < node.values.size(); ++i) out.f32[i] = static_cast<float>(node.values[i]);
  return out;
}

}  // namespace

HostTensor RandomWeights::load(const ir::Graph& graph, const ir::Weight& weight) {
  std::vector<HostTensor> values;
  for (const ir::RecipeNode& node : weight.recipe.nodes) {
    const auto input = [&] { return values.at(static_cast<size_t>(node.inputs.at(0))); };
    switch (node.op) {
      case ir::RecipeOp::kSource:
        values.push_back(random_source(graph.sources.at(static_cast<size_t>(node.source)), seed_));
        break;
      case ir::RecipeOp::kConcatRows:
        values.push_back(concat_rows(values, node));
        break;
      case ir::RecipeOp::kUnpermute:
      case ir::RecipeOp::kSliceRows:
      case ir::RecipeOp::kHeadPart:
      case ir::RecipeOp::kStridedRows:
      case ir::RecipeOp::kPickRows:
        values.push_back(move_rows(input(), node));
        break;
      case ir::RecipeOp::kTranspose:
        values.push_back(transpose(input()));
        break;
      case ir::RecipeOp::kDequantize:
        values.push_back(dequantize(input(), node));
        break;
      case ir::RecipeOp::kOffset:
        values.push_back(add_offset(input(), node.values.at(0)));
        break;
      case ir::RecipeOp::kLiteral:
        values.push_back(literal(node));
        break;
    }
  }
  KVERN_CHECK(!values.empty(), "weight '{}' has no recipe", weight.name);
  HostTensor out = std::move(values.back());
  KVERN_CHECK(static_cast<int64_t>(out.f32.size()) == num_elements(weight.shape),
              "weight '{}' has {} values", weight.name, out.f32.size());
  out.shape = weight.shape;
  return out;
}

}  // namespace kvern::eval
