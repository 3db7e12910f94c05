// What an attention is, read off its elements in every world.
#pragma once

#include <utility>
#include <vector>

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

struct AttentionReading {
  int32_t q_base = -1;
  std::vector<std::vector<int32_t>> q_features;  // per head, heads in the order of their features
  int64_t dim_k = 0, dim_v = 0;
  CacheSide k, v;
  double v_factor = 1;
  int64_t rotary_dim = 0;  // 0: not turned
  bool interleaved = false;
  std::vector<double> frequencies;
  bool measured = false;  // no constant of the file has these frequencies
  double scale = 1;
  int64_t window = 0;          // 0: none
  std::vector<double> sinks;   // per head; empty: none
  std::vector<double> slopes;  // per head; empty: no ALiBi
  int64_t longest = 0;         // keys of the longest row of its mask
  // Per layout world, per row of the output: token and head.
  std::vector<std::vector<std::pair<int32_t, int32_t>>> rows;
};

// `scores` are normalised; `shapes` theirs in every world. Throws Error(kUnsupported) naming the
// node and what stands in the way.
AttentionReading read_attention(Walk& walk, const ir::TensorNode& node, const Scores& scores,
                                const View& v, const std::vector<Shape>& shapes);

}  // namespace kvern::passes::token_form
