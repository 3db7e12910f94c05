#include "compile/passes/token_form/name_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compile/ir/ops.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;
using ir::Node;
using ir::ValueId;

bool is_norm(const Node& node) {
  return node.op == &ops::kRmsNorm || node.op == &ops::kLayerNorm;
}

class Namer {
 public:
  explicit Namer(ir::Graph& graph) : graph_(graph) {}

  void run() {
    std::vector<size_t> attentions;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (graph_.nodes()[i].op == &ops::kKvAttention) attentions.push_back(i);
    }
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      name_attention(attentions[layer], fmt::format("layers.{}", layer));
    }
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      const bool last = layer + 1 == attentions.size();
      name_mlp(attentions[layer], last ? graph_.nodes().size() : attentions[layer + 1],
               fmt::format("layers.{}", layer));
    }
    name_generic(attentions.size());
  }

 private:
  const Node& node_of(ValueId id) const { return graph_.nodes()[graph_.producer(id)]; }

  void rename(ValueId id, const std::string& name) {
    if (!named_.insert(id.value).second || graph_.value(id).name == name) return;
    graph_.rename(id, graph_.unique_name(name));
  }

  void rename_weight(ValueId id, const std::string& name) {
    const size_t at = graph_.producer(id);
    if (graph_.nodes()[at].op != &ops::kWeight || graph_.weight_index(name) >= 0) return;
    // A weight that several read (a tied head) keeps its first name.
    if (!named_.insert(id.value).second || graph_.value(id).name == "embed.weight") return;
    auto attrs = graph_.nodes()[at].attrs.as<ir::WeightAttrs>();
    const int index = graph_.weight_index(attrs.name);
    if (index < 0) return;
    graph_.weights[static_cast<size_t>(index)].name = name;
    attrs.name = name;
    graph_.nodes()[at].attrs = ir::Attrs::of(attrs);
    graph_.rename(id, graph_.unique_name(name));
  }

  // A linear or norm and its weights.
  void rename_node(const Node& node, const std::string& name) {
    const std::vector<ValueId> inputs = node.inputs;
    const ValueId output = node.outputs[0];
    rename(output, name);
    if (inputs.size() > 1) rename_weight(inputs[1], name + ".weight");
    if (inputs.size() > 2) rename_weight(inputs[2], name + ".bias");
  }

  // From an operand of attention back to its linear: rotation, head norm, scale.
  ValueId name_operand(ValueId id, const std::string& name) {
    for (int step = 0; step < 6; ++step) {
      const Node& node = node_of(id);
      if (node.op == &ops::kLinear) {
        const ValueId x = node.inputs[0];
        rename_node(node, name);
        return x;
      }
      if (node.inputs.empty() || node.op == &ops::kEmbedding) return {};
      const ValueId next = node.inputs[0];
      if (node.op == &ops::kRope) rename(id, name + "_rope");
      if (node.op == &ops::kMap) rename(id, name + "_map");
      if (is_norm(node)) rename_node(node, name + "_norm");
      id = next;
    }
    return {};
  }

  void name_attention(size_t index, const std::string& at) {
    const Node attention = graph_.nodes()[index];
    const Node append = node_of(attention.inputs[1]);
    ValueId x = name_operand(attention.inputs[0], at + ".attn.q");
    if (append.op == &ops::kKvAppend) {
      name_operand(append.inputs[0], at + ".attn.k");
      name_operand(append.inputs[1], at + ".attn.v");
    }
    if (x.valid() && is_norm(node_of(x))) rename_node(node_of(x), at + ".attn_norm");
    for (const size_t user : graph_.users(attention.outputs[0])) {
      const Node node = graph_.nodes()[user];
      if (node.op != &ops::kLinear) continue;
      rename_node(node, at + ".attn.o");
      name_sum(node.outputs[0], at + ".attn");
    }
  }

  // What a block's last linear is added to, behind a norm of its own or not.
  void name_sum(ValueId y, const std::string& block) {
    for (const size_t user : graph_.users(y)) {
      const Node node = graph_.nodes()[user];
      if (node.op == &ops::kAdd) rename(node.outputs[0], block + "_add");
      if (!is_norm(node) || named_.contains(node.outputs[0].value)) continue;
      rename_node(node, block + "_post_norm");
      name_sum(node.outputs[0], block);
    }
  }

  // down(act(gate) * up) or down(act(up)): the parts between.
  void name_gate(ValueId x, const std::string& at) {
    const Node node = node_of(x);
    if (node.op == &ops::kMul) {
      rename(x, at + ".gated");
      for (const ValueId input : node.inputs) name_activation(input, at);
      return;
    }
    name_activation(x, at);
  }
  void name_activation(ValueId x, const std::string& at) {
    const Node& node = node_of(x);
    if (node.op == &ops::kSilu) rename(x, at + ".silu");
    if (node.op == &ops::kGeluTanh || node.op == &ops::kGeluErf) rename(x, at + ".gelu");
    if (node.op == &ops::kRelu) rename(x, at + ".relu");
  }

  // What lies between two attentions and has no name yet.
  void name_mlp(size_t from, size_t to, const std::string& at) {
    std::vector<size_t> linears, norms;
    for (size_t i = from; i < to; ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.outputs.empty() || named_.contains(node.outputs[0].value)) continue;
      if (node.op == &ops::kLinear) linears.push_back(i);
      if (is_norm(node)) norms.push_back(i);
    }
    const bool last = to == graph_.nodes().size();
    if (last && !linears.empty()) {
      name_head(linears.back());
      linears.pop_back();
    }
    const char* gated[] = {"gate", "up", "down"};
    const char* plain[] = {"up", "down"};
    for (size_t i = 0; i < linears.size(); ++i) {
      const char* part = linears.size() == 3 ? gated[i] : linears.size() == 2 ? plain[i] : "linear";
      const Node node = graph_.nodes()[linears[i]];
      rename_node(node, fmt::format("{}.mlp.{}", at, part));
      if (i + 1 < linears.size()) continue;
      name_gate(node.inputs[0], at + ".mlp");
      name_sum(node.outputs[0], at + ".mlp");
    }
    for (const size_t i : norms) {
      const Node& node = graph_.nodes()[i];
      if (!named_.contains(node.outputs[0].value)) rename_node(node, at + ".mlp_norm");
    }
  }

  void name_head(size_t index) {
    const Node head = graph_.nodes()[index];
    rename(head.outputs[0], "logits");
    if (head.inputs.size() > 1) rename_weight(head.inputs[1], "head.weight");
    if (head.inputs.size() > 2) rename_weight(head.inputs[2], "head.bias");
    if (is_norm(node_of(head.inputs[0]))) rename_node(node_of(head.inputs[0]), "norm");
  }

  // What no kernel of its own computes: by layer, so that a report says where its time goes.
  void name_generic(size_t num_layers) {
    size_t layer = 0, attentions = 0;
    const std::string last = fmt::format("layers.{}.mlp_add", num_layers - 1);
    bool behind = false;  // of the layers
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.outputs.empty()) continue;
      if (node.op == &ops::kKvAttention) layer = std::max(layer, attentions++);
      const std::string& name = graph_.value(node.outputs[0]).name;
      if (name == fmt::format("layers.{}.mlp_add", layer) && layer + 1 < num_layers) ++layer;
      behind = behind || name == last || name == "logits";
      const bool generic =
          node.op == &ops::kMap || node.op == &ops::kSelect || node.op == &ops::kRowReduce;
      if (!generic || named_.contains(node.outputs[0].value)) continue;
      rename(node.outputs[0], behind ? fmt::format("head.{}", node.op->name)
                                     : fmt::format("layers.{}.{}", layer, node.op->name));
    }
  }

  ir::Graph& graph_;
  std::set<int32_t> named_;
};

}  // namespace

void name_layers(ir::Graph& graph) {
  Namer(graph).run();
}

}  // namespace kvern::passes::token_form
