#include "compile/passes/token_form/head.h"

#include <fmt/format.h>

#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;
using ir::Node;
using ir::ValueId;

constexpr int kMostSteps = 32;

// Ops that leave a score where it is: caps, scales, biases, rounding, a choice of some.
bool keeps_scores(const Node& node) {
  for (const ir::OpSchema* op :
       {&ops::kScale, &ops::kSoftcap, &ops::kTanh, &ops::kMap, &ops::kSelect}) {
    if (node.op == op) return true;
  }
  return false;
}

// What computes the scores of `id`, before such ops.
const Node& maker_of(const ir::Graph& graph, ValueId id) {
  const Node* node = &graph.nodes()[graph.producer(id)];
  for (int step = 0; step < kMostSteps && keeps_scores(*node); ++step) {
    node = &graph.nodes()[graph.producer(node->inputs.at(0))];
  }
  return *node;
}

constexpr const char* kAdvice =
    "these are hidden states and no logits. Export the model with its head (optimum: --task "
    "text-generation-with-past; transformers: the class …ForCausalLM)";

}  // namespace

void check_head(const Walk& walk, ValueId logits, const std::string& name) {
  const ir::Graph& graph = walk.emit.graph;
  const Node& maker = maker_of(graph, logits);
  if (maker.op == &ops::kRmsNorm || maker.op == &ops::kLayerNorm) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: output '{}' comes from a norm ('{}') and not from a product "
                            "with the weights of a head: {}",
                            name, maker.source_name, kAdvice));
  }
  // Embeddings are padded, heads pruned of the padding: by some rows, not by half of them.
  const int64_t scored = graph.value(logits).type.dims.back().value();
  const int64_t rows = walk.out.vocabulary_size;
  const auto config = walk.options.config.find("vocab_size");
  const int64_t said = config == walk.options.config.end() ? 0 : config->second;
  const bool as_hidden = scored == walk.out.hidden_size && scored != rows;
  if (scored * 2 >= rows && scored * 2 >= said && !as_hidden) return;
  throw Error(Code::kUnsupported,
              fmt::format("onnx: output '{}' has {} numbers per token, and {}: {}", name, scored,
                          scored * 2 < said ? fmt::format("config.json says vocab_size {}", said)
                                            : fmt::format("the embedding has {} rows", rows),
                          kAdvice));
}

}  // namespace kvern::passes::token_form
