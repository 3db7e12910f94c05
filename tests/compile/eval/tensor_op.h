// Short forms for tests of single nodes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"

namespace kvern::eval {

inline Array f32(Shape shape, std::vector<float> values) {
  return Array::of<float>(ElementType::kFloat, std::move(shape), values);
}
inline Array i64(Shape shape, std::vector<int64_t> values) {
  return Array::of<int64_t>(ElementType::kInt64, std::move(shape), values);
}
inline Array boolean(Shape shape, std::vector<uint8_t> values) {
  return Array::of<uint8_t>(ElementType::kBool, std::move(shape), values);
}

struct Op {
  std::string name;
  int64_t opset = 18;
  std::map<std::string, ir::TensorAttr> attrs = {};
  size_t num_outputs = 1;
};

inline std::vector<Array> run_op(const Op& op, const std::vector<Array>& inputs) {
  TensorNode node;
  node.op = op.name;
  node.opset = op.opset;
  node.name = "n";
  node.attrs = op.attrs;
  std::vector<const Array*> pointers;
  for (const Array& input : inputs) {
    // An Array without elements stands for an input that is left out.
    const bool left_out = input.type() == ElementType::kUndefined;
    node.inputs.push_back(left_out ? ir::kNoValue : static_cast<int32_t>(pointers.size()));
    pointers.push_back(left_out ? nullptr : &input);
  }
  for (size_t i = 0; i < op.num_outputs; ++i) node.outputs.push_back(static_cast<int32_t>(100 + i));
  return run_tensor_node(node, pointers);
}

template <class T>
std::vector<T> values(const Array& array) {
  const auto span = array.as<T>();
  return {span.begin(), span.end()};
}

// Runs `op` and expects an Error of `code` that says `words`.
inline void expect_refused(const Op& op, const std::vector<Array>& inputs, Code code,
                           const std::string& words) {
  try {
    run_op(op, inputs);
    ADD_FAILURE() << op.name << " was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

}  // namespace kvern::eval
