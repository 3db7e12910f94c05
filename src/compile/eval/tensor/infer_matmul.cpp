// Rules of products and of quantised ops.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "compile/eval/tensor/infer.h"

namespace kvern::eval {
namespace {

Facts one(ElementType type, Shape shape) {
  return {{type, std::move(shape), nullptr}};
}

// The terms of an einsum equation, without spaces; an ellipsis is one '.'.
std::vector<std::string> einsum_terms(const std::string& equation, std::string* output) {
  std::string text;
  for (const char c : equation) {
    if (c != ' ' && !(c == '.' && !text.empty() && text.back() == '.')) text += c;
  }
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (const char c : left) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (arrow != std::string::npos) {
    *output = text.substr(arrow + 2);
    return terms;
  }
  std::map<char, int> seen;  // implicit output: labels that stand once, in alphabetic order
  for (const char c : left) ++seen[c];
  if (seen.contains('.')) output->assign(1, '.');
  for (const auto& [c, times] : seen) {
    if (times == 1 && c != '.' && c != ',') *output += c;
  }
  return terms;
}

}  // namespace

Shape InferCall::matmul(const Shape& a, const Shape& b) const {
  if (a.empty() || b.empty()) fail("a scalar cannot be multiplied as a matrix");
  const Shape left = a.size() == 1 ? Shape{1, a[0]} : a;
  const Shape right = b.size() == 1 ? Shape{b[0], 1} : b;
  if (left.back() != right[right.size() - 2]) {
    fail(fmt::format("matrices of shapes {} and {} do not multiply", to_string(a), to_string(b)));
  }
  Shape out = broadcast({left.begin(), left.end() - 2}, {right.begin(), right.end() - 2});
  if (a.size() > 1) out.push_back(left[left.size() - 2]);
  if (b.size() > 1) out.push_back(right.back());
  return out;
}

Facts infer_matmul(const InferCall& call) {
  return one(call.type(0), call.matmul(call.shape(0), call.shape(1)));
}

Facts infer_fused_matmul(const InferCall& call) {
  Shape shapes[2] = {call.shape(0), call.shape(1)};
  const char* names[2][2] = {{"transA", "transBatchA"}, {"transB", "transBatchB"}};
  for (size_t i = 0; i < 2; ++i) {
    Shape& shape = shapes[i];
    if (shape.size() < 2) continue;
    if (call.node.i(names[i][1], 0) != 0) {
      std::rotate(shape.begin(), shape.begin() + 1, shape.end() - 1);
    }
    if (call.node.i(names[i][0], 0) != 0) std::swap(shape[shape.size() - 2], shape.back());
  }
  return one(call.type(0), call.matmul(shapes[0], shapes[1]));
}

Facts infer_gemm(const InferCall& call) {
  call.want_rank(0, 2, 2);
  call.want_rank(1, 2, 2);
  const bool trans_a = call.node.i("transA", 0) != 0;
  const bool trans_b = call.node.i("transB", 0) != 0;
  if (call.dim(0, trans_a ? 0 : 1) != call.dim(1, trans_b ? 1 : 0)) {
    call.fail(fmt::format("matrices of shapes {} and {} do not multiply", to_string(call.shape(0)),
                          to_string(call.shape(1))));
  }
  return one(call.type(0), {call.dim(0, trans_a ? 1 : 0), call.dim(1, trans_b ? 0 : 1)});
}

Facts infer_einsum(const InferCall& call) {
  std::string output;
  const auto terms = einsum_terms(call.node.s("equation", ""), &output);
  if (terms.size() != call.inputs.size()) call.fail("the equation has other operands than inputs");
  std::map<char, int64_t> dims;
  Shape rest;  // what the ellipsis stands for
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool open = terms[i].find('.') != std::string::npos;
    const auto labels = static_cast<int64_t>(terms[i].size()) - (open ? 1 : 0);
    if (open ? labels > call.rank(i) : labels != call.rank(i)) {
      call.fail(fmt::format("operand {} does not have the rank that the equation says", i));
    }
    auto at = call.shape(i).begin();
    for (const char c : terms[i]) {
      if (c == '.') {
        const auto end = at + (call.rank(i) - labels);
        rest = call.broadcast(rest, Shape(at, end));
        at = end;
        continue;
      }
      int64_t& dim = dims.try_emplace(c, 1).first->second;
      if (dim != 1 && *at != 1 && dim != *at) call.fail(fmt::format("dims of '{}' differ", c));
      if (dim == 1) dim = *at;
      ++at;
    }
  }
  Shape shape;
  for (const char c : output) {
    if (c == '.') {
      shape.insert(shape.end(), rest.begin(), rest.end());
    } else if (const auto found = dims.find(c); found != dims.end()) {
      shape.push_back(found->second);
    } else {
      call.fail(fmt::format("the output's '{}' is in no operand", c));
    }
  }
  return one(call.type(0), shape);
}

Facts infer_matmul_integer(const InferCall& call) {
  return one(ElementType::kInt32, call.matmul(call.shape(0), call.shape(1)));
}

Facts infer_matmul_integer_to_float(const InferCall& call) {
  return one(call.type(2), call.matmul(call.shape(0), call.shape(1)));
}

Facts infer_qlinear_matmul(const InferCall& call) {
  return one(call.type(7), call.matmul(call.shape(0), call.shape(3)));
}

Facts infer_matmul_n_bits(const InferCall& call) {
  call.want_rank(0, 1, 8);
  Shape shape = call.shape(0);
  const int64_t k = call.node.i("K", 0);
  if (shape.back() != k) {
    call.fail(fmt::format("input 0 of shape {} does not end in K = {}", to_string(shape), k));
  }
  shape.back() = call.node.i("N", 0);
  call.count(shape);
  return one(call.type(0), shape);
}

Facts infer_quantize(const InferCall& call) {
  const ElementType by_attr = call.type_attr("output_dtype", ElementType::kUint8);
  return one(call.has(2) ? call.type(2) : by_attr, call.shape(0));
}

Facts infer_dequantize(const InferCall& call) {
  return one(call.type_attr("output_dtype", call.type(1)), call.shape(0));
}

Facts infer_dynamic_quantize(const InferCall& call) {
  return {{ElementType::kUint8, call.shape(0), nullptr},
          {ElementType::kFloat, {}, nullptr},
          {ElementType::kUint8, {}, nullptr}};
}

// data [.., n] holds 4-bit (or 2-bit) codes: bytes of several along the last axis, or one each.
Facts infer_gather_block_quantized(const InferCall& call) {
  const int64_t axis = call.axis(call.node.i("gather_axis", 0), call.rank(0));
  Shape shape = call.shape(0);
  const int64_t bits = call.node.i("bits", 4);
  if (call.type(0) == ElementType::kUint8 && bits > 0 && bits < 8) shape.back() *= 8 / bits;
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, call.shape(1).begin(), call.shape(1).end());
  return one(call.type(2), shape);
}

}  // namespace kvern::eval
