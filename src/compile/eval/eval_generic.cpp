// Elementwise programs, picked columns and reductions of a row, element by element.
#include <algorithm>
#include <cmath>

#include "compile/eval/node_eval.h"
#include "compile/ir/ops.h"
#include "tensor/map_program.h"

namespace kvern::eval {
namespace {

float run_program(const MapProgram& program, const std::vector<float>& inputs,
                  std::vector<float>& stack) {
  stack.clear();
  for (const MapStep& step : program) {
    if (step.op == MapOp::kInput) {
      stack.push_back(inputs[static_cast<size_t>(step.index)]);
    } else if (step.op == MapOp::kConstant) {
      stack.push_back(static_cast<float>(step.value));
    } else if (step.op == MapOp::kCopy) {
      stack.push_back(stack[stack.size() - 1 - static_cast<size_t>(step.index)]);
    } else {
      float operand[3] = {};
      const auto arity = static_cast<size_t>(map_arity(step.op));
      std::copy(stack.end() - static_cast<int64_t>(arity), stack.end(), operand);
      stack.resize(stack.size() - arity);
      stack.push_back(map_value(step.op, operand[0], operand[1], operand[2]));
    }
  }
  return stack.back();
}

float reduce(ir::ReduceKind kind, const float* x, int64_t n) {
  if (kind == ir::ReduceKind::kMax) return *std::max_element(x, x + n);
  if (kind == ir::ReduceKind::kMin) return *std::min_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += kind == ir::ReduceKind::kMeanSquare ? double{x[i]} * x[i] : double{x[i]};
  }
  return static_cast<float>(kind == ir::ReduceKind::kSum ? sum : sum / static_cast<double>(n));
}

}  // namespace

std::vector<HostTensor> eval_map(const ir::Node& node, Inputs in) {
  const MapProgram program = parse_map_program(node.attrs.as<ir::MapAttrs>().program);
  int64_t rows = 0;
  int64_t width = 1;
  for (const HostTensor* x : in) {
    if (x->shape.size() == 2) rows = x->shape[0];
    width = std::max(width, x->shape.back());
  }
  HostTensor y = f32_tensor({rows, width});
  std::vector<float> at(in.size());
  std::vector<float> stack;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t j = 0; j < width; ++j) {
      for (size_t i = 0; i < in.size(); ++i) {
        const int64_t own = in[i]->shape.back();
        const int64_t index = in[i]->shape.size() == 2 ? t * own + j / (width / own) : j % own;
        at[i] = in[i]->f32[static_cast<size_t>(index)];
      }
      y.f32[static_cast<size_t>(t * width + j)] = run_program(program, at, stack);
    }
  }
  return {std::move(y)};
}

std::vector<HostTensor> eval_select(const ir::Node& node, Inputs in) {
  const auto& runs = node.attrs.as<ir::SelectAttrs>().runs;
  std::vector<int64_t> indices;
  for (size_t i = 0; i < runs.size(); i += 3) {
    for (int64_t j = 0; j < runs[i + 1]; ++j) indices.push_back(runs[i] + j * runs[i + 2]);
  }
  const int64_t rows = in[0]->shape[0];
  const int64_t width = in[0]->shape[1];
  HostTensor y = f32_tensor({rows, static_cast<int64_t>(indices.size())});
  auto to = y.f32.begin();
  for (int64_t t = 0; t < rows; ++t) {
    for (const int64_t index : indices) *to++ = in[0]->f32[static_cast<size_t>(t * width + index)];
  }
  return {std::move(y)};
}

std::vector<HostTensor> eval_row_reduce(const ir::Node& node, Inputs in) {
  const auto& a = node.attrs.as<ir::RowReduceAttrs>();
  const int64_t rows = in[0]->shape[0];
  const int64_t width = in[0]->shape[1] / a.groups;
  HostTensor y = f32_tensor({rows, a.groups});
  for (int64_t i = 0; i < rows * a.groups; ++i) {
    y.f32[static_cast<size_t>(i)] = reduce(a.kind, in[0]->f32.data() + i * width, width);
  }
  return {std::move(y)};
}

}  // namespace kvern::eval
