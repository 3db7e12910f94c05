// What decoder layers are made of: norms, attention, MLP, rotary angles.
#pragma once

#include <string>
#include <vector>

#include "compile/import/families/decoder.h"
#include "compile/ir/graph.h"

namespace kvern::import::decoder {

struct Angles {
  ir::ValueId cos;  // [tokens, rotary_dim / 2]
  ir::ValueId sin;
};

// What all layers share.
struct Parts {
  const DecoderConfig& config;
  WeightSet& weights;
  ir::Graph& graph;
  std::vector<Angles> angles;  // by DecoderConfig::ropes
};

// A node with the op's default attributes.
ir::ValueId add(Parts& parts, const ir::OpSchema& op, std::vector<ir::ValueId> inputs,
                const std::string& name);

DecoderLayer layer_of(const DecoderConfig& config, int64_t index);

// x: [tokens, hidden]; gamma is `name`.weight.
ir::ValueId norm(Parts& parts, ir::ValueId x, const std::string& name);
// `at`: "layers.3.attn", "layers.3.mlp"
ir::ValueId attention(Parts& parts, ir::ValueId x, int64_t layer, const std::string& at);
ir::ValueId mlp(Parts& parts, ir::ValueId x, const std::string& at);
Angles rope_angles(Parts& parts, const RopeConfig& rope, ir::ValueId positions,
                   const std::string& name);

}  // namespace kvern::import::decoder
