#include "tests/compile/passes/same_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compile/eval/eval.h"
#include "compile/ir/ops.h"

namespace kvern::passes {
namespace {

using Tensors = std::map<std::string, eval::HostTensor>;

eval::HostTensor i32_tensor(std::vector<int32_t> values) {
  return {{static_cast<int64_t>(values.size())}, {}, std::move(values)};
}

// Inputs of a chunk of `count` tokens that starts at `start`: ids below 32, positions, all else
// uniform in [-1, 1).
Tensors make_inputs(const ir::Graph& graph, int start, int count, std::mt19937& random,
                    const std::vector<int32_t>& wanted) {
  Tensors inputs;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != &ir::ops::kInput) continue;
    const auto& a = node.attrs.as<ir::InputAttrs>();
    std::vector<int32_t> integers;
    for (int i = 0; i < count; ++i) {
      integers.push_back(a.name == "positions" ? start + i : static_cast<int32_t>(random() % 32));
    }
    if (a.dtype == DType::kI32) {
      inputs[a.name] = i32_tensor(a.name == "wanted" ? wanted : integers);
      continue;
    }
    eval::HostTensor tensor{{count, a.width}, {}, {}};
    for (int64_t i = 0; i < count * a.width; ++i) {
      tensor.f32.push_back(std::uniform_real_distribution<float>(-1, 1)(random));
    }
    inputs[a.name] = tensor;
  }
  return inputs;
}

eval::HostTensor rows_of(const eval::HostTensor& x, const std::vector<int32_t>& rows) {
  eval::HostTensor y{{static_cast<int64_t>(rows.size()), x.shape[1]}, {}, {}};
  for (const int32_t row : rows) {
    const auto begin = x.f32.begin() + row * x.shape[1];
    y.f32.insert(y.f32.end(), begin, begin + x.shape[1]);
  }
  return y;
}

bool has_input(const ir::Graph& graph, std::string_view name) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    return node.op == &ir::ops::kInput && node.attrs.as<ir::InputAttrs>().name == name;
  });
}

void expect_same(const Tensors& before, const Tensors& after, const std::vector<int32_t>& wanted,
                 bool narrowed) {
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    const eval::HostTensor& got = after.at(name);
    const eval::HostTensor expected =
        narrowed && name == "logits" ? rows_of(tensor, wanted) : tensor;
    ASSERT_EQ(got.shape, expected.shape) << name;
    for (const float value : expected.f32) ASSERT_TRUE(std::isfinite(value)) << name;
    EXPECT_EQ(got.f32, expected.f32) << name;
  }
}

}  // namespace

void expect_same_numbers(const ir::Graph& before, const ir::Graph& after) {
  const bool narrowed = has_input(after, "wanted") && !has_input(before, "wanted");
  std::mt19937 random(20240229);
  for (const int length : {1, 5, 17}) {
    SCOPED_TRACE(length);
    eval::RandomWeights weights(7);
    eval::KvState kv_before;
    eval::KvState kv_after;
    for (const auto& [start, count] : {std::pair{0, length}, std::pair{length, 6}}) {
      std::vector<int32_t> wanted{count - 1};
      if (count > 3) wanted = {count - 1, 0, 2};
      Tensors inputs = make_inputs(before, start, count, random, wanted);
      const Tensors expected = eval::run(before, inputs, weights, kv_before);
      inputs["wanted"] = i32_tensor(wanted);
      expect_same(expected, eval::run(after, inputs, weights, kv_after), wanted, narrowed);
    }
    ASSERT_EQ(kv_before.k.size(), kv_after.k.size());
    for (const auto& [slot, k] : kv_before.k) {
      EXPECT_EQ(kv_after.k.at(slot).f32, k.f32) << "k of slot " << slot;
      EXPECT_EQ(kv_after.v.at(slot).f32, kv_before.v.at(slot).f32) << "v of slot " << slot;
    }
  }
}

}  // namespace kvern::passes
