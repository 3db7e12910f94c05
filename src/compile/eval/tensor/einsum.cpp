// Einsum of one to three operands, as one walk over all labels. Plain, not fast.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/strided.h"
#include "compile/ir/work_budget.h"

namespace kvern::eval {
namespace {

constexpr char kDots = '.';  // the first of the labels that an ellipsis stands for

struct Equation {
  std::vector<std::string> terms;  // one per operand; "..." is one kDots
  std::string output;
};

std::string normal_term(const OpCall& call, std::string term) {
  const size_t dots = term.find("...");
  if (dots != std::string::npos) term.replace(dots, 3, 1, kDots);
  for (const char label : term) {
    const bool letter = (label >= 'a' && label <= 'z') || (label >= 'A' && label <= 'Z');
    if (!letter && label != kDots) call.fail(fmt::format("'{}' in the equation", label));
  }
  if (std::count(term.begin(), term.end(), kDots) > 1) call.fail("two ellipses in one term");
  return term;
}

Equation parse(const OpCall& call) {
  std::string text = call.node.s("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation out;
  for (size_t begin = 0; begin <= left.size();) {
    const size_t comma = std::min(left.find(',', begin), left.size());
    out.terms.push_back(normal_term(call, left.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  if (arrow != std::string::npos) {
    out.output = normal_term(call, text.substr(arrow + 2));
    return out;
  }
  // Labels that occur once, in alphabetical order, after the ellipsis.
  std::map<char, int> seen;
  for (const std::string& term : out.terms) {
    for (const char label : term) ++seen[label];
  }
  if (seen.contains(kDots)) out.output = kDots;
  for (const auto& [label, times] : seen) {
    if (label != kDots && times == 1) out.output += label;
  }
  return out;
}

// Labels as numbers: letters are themselves, dims of the ellipsis 256 and up, right-aligned.
std::vector<int> expand(const std::string& term, int64_t ellipsis_rank, int64_t widest) {
  std::vector<int> out;
  for (const char label : term) {
    if (label != kDots) {
      out.push_back(label);
      continue;
    }
    for (int64_t d = 0; d < ellipsis_rank; ++d) {
      out.push_back(static_cast<int>(256 + widest - ellipsis_rank + d));
    }
  }
  return out;
}

struct Labels {
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;
  std::vector<int> all;  // those of the output, then those that are summed over
  std::map<int, int64_t> dims;
};

Labels label_dims(const OpCall& call, const Equation& equation) {
  if (equation.terms.size() != call.inputs.size()) {
    call.fail(fmt::format("the equation has {} terms, the node {} inputs", equation.terms.size(),
                          call.inputs.size()));
  }
  std::vector<int64_t> ellipsis(equation.terms.size(), 0);
  int64_t widest = 0;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    const std::string& term = equation.terms[i];
    const bool dots = term.find(kDots) != std::string::npos;
    ellipsis[i] = call.in(i).rank() - static_cast<int64_t>(term.size()) + (dots ? 1 : 0);
    if (ellipsis[i] < 0 || (!dots && ellipsis[i] != 0)) {
      call.fail(
          fmt::format("'{}' does not name the dims of {}", term, to_string(call.in(i).shape())));
    }
    widest = std::max(widest, ellipsis[i]);
  }
  Labels out;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    out.inputs.push_back(expand(equation.terms[i], ellipsis[i], widest));
    for (size_t d = 0; d < out.inputs[i].size(); ++d) {
      const int64_t dim = call.in(i).shape()[d];
      int64_t& known = out.dims.emplace(out.inputs[i][d], 1).first->second;
      if (known != dim && known != 1 && dim != 1) {
        call.fail(fmt::format("a label is {} and {}", known, dim));
      }
      if (dim != 1) known = dim;
    }
  }
  out.output = expand(equation.output, widest, widest);
  out.all = out.output;
  for (const int label : out.output) {
    if (!out.dims.contains(label)) call.fail("the output has a label that no input has");
    if (std::count(out.output.begin(), out.output.end(), label) > 1) {
      call.fail("the output has a label twice");
    }
  }
  for (const auto& [label, dim] : out.dims) {
    if (std::find(out.output.begin(), out.output.end(), label) == out.output.end()) {
      out.all.push_back(label);
    }
  }
  return out;
}

// Strides of an operand over all labels; a label that it has twice walks its diagonal.
Strides strides_over(const Labels& labels, const std::vector<int>& own, const Shape& shape) {
  const Strides dense = dense_strides(shape);
  Strides out(labels.all.size(), 0);
  for (size_t l = 0; l < labels.all.size(); ++l) {
    for (size_t d = 0; d < own.size(); ++d) {
      if (own[d] == labels.all[l] && shape[d] != 1) out[l] += dense[d];
    }
  }
  return out;
}

template <class T>
void sum_products(const Walk& walk, std::span<const Array> inputs, Array* out) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  std::vector<Sum> sums(static_cast<size_t>(out->count()));
  const size_t last = inputs.size();
  walk.rows([&](const auto& offsets) {
    ir::check_stop();
    for (int64_t i = 0; i < walk.inner_count(); ++i) {
      Sum product = 1;
      for (size_t o = 0; o < last; ++o) {
        const int64_t at = offsets[o] + i * walk.inner_stride(o);
        product = wrapping(product, static_cast<Sum>(inputs[o].as<T>()[static_cast<size_t>(at)]),
                           [](auto a, auto b) { return a * b; });
      }
      Sum& sum = sums[static_cast<size_t>(offsets[last] + i * walk.inner_stride(last))];
      sum = wrapping(sum, product, [](auto a, auto b) { return a + b; });
    }
  });
  T* y = out->mutable_as<T>().data();
  for (size_t i = 0; i < sums.size(); ++i) y[i] = static_cast<T>(sums[i]);
}

}  // namespace

Arrays eval_einsum(const OpCall& call) {
  if (call.inputs.empty() || call.inputs.size() > 3) call.unsupported("more than 3 operands");
  const Labels labels = label_dims(call, parse(call));
  std::vector<Array> inputs;
  std::vector<Strides> strides;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.in(i).type() != call.in(0).type()) call.fail("operands are of several types");
    inputs.push_back(widened(call.in(i)));
    strides.push_back(strides_over(labels, labels.inputs[i], inputs[i].shape()));
  }
  Shape shape, walked;
  for (const int label : labels.output) shape.push_back(labels.dims.at(label));
  for (const int label : labels.all) walked.push_back(labels.dims.at(label));
  Array out(inputs[0].type(), shape);
  strides.push_back(strides_over(labels, labels.output, shape));
  double products = 1;
  for (const int64_t dim : walked) products *= static_cast<double>(dim);
  ir::spend_multiply_adds(products);
  const Walk walk(walked, strides);
  const bool known =
      visit_number(out.type(), [&]<class T>(T) { sum_products<T>(walk, inputs, &out); });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(out.type())));
  return {narrowed(out, call.in(0).type())};
}

}  // namespace kvern::eval
