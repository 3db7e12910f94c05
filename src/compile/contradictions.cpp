#include "compile/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/contradict_rope.h"
#include "compile/ir/ops.h"

namespace kvern::compile {
namespace {

using passes::TokenForm;
using passes::TokenLayer;

// "0, 2, 4 and 5 more"
std::string listed(const std::vector<size_t>& layers) {
  constexpr size_t kShown = 6;
  const size_t shown = std::min(layers.size(), kShown);
  std::string out = fmt::format("{}", fmt::join(layers.begin(), layers.begin() + shown, ", "));
  if (layers.size() > shown) out += fmt::format(" and {} more", layers.size() - shown);
  return out;
}

std::vector<size_t> layers_where(const TokenForm& form, bool (*holds)(const TokenLayer&)) {
  std::vector<size_t> out;
  for (size_t i = 0; i < form.layers.size(); ++i) {
    if (holds(form.layers[i])) out.push_back(i);
  }
  return out;
}

// A cap on the way from the last linear layer to the logits: softcap, or a map with tanh.
bool caps_logits(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != &ir::ops::kOutput) continue;
    const ir::Node* from = &graph.nodes()[graph.producer(node.inputs[0])];
    for (int step = 0; step < 4 && from->op != &ir::ops::kLinear; ++step) {
      if (from->op == &ir::ops::kSoftcap || from->op == &ir::ops::kTanh) return true;
      if (from->op == &ir::ops::kMap &&
          from->attrs.as<ir::MapAttrs>().program.find("tanh") != std::string::npos) {
        return true;
      }
      if (from->inputs.empty()) break;
      from = &graph.nodes()[graph.producer(from->inputs[0])];
    }
  }
  return false;
}

int64_t window_of(const TokenLayer& layer) {
  return layer.mask.starts_with("window ") ? std::stoll(layer.mask.substr(7)) : 0;
}

class Comparison {
 public:
  Comparison(const import::ConfigFacts& config, const TokenForm& form, const ir::Graph& graph)
      : config_(config), form_(form), graph_(graph) {}

  std::vector<std::string> run() {
    compare_sizes();
    compare_softcaps();
    compare_windows();
    compare_rope();
    compare_norms();
    return std::move(out_);
  }

 private:
  void add(const std::string& config, const std::string& graph) {
    out_.push_back(
        fmt::format("config.json says {}, {}; Kvern does what the graph says", config, graph));
  }

  void compare_number(const char* name, int64_t says, int64_t has) {
    if (says > 0 && has > 0 && says != has) {
      add(fmt::format("{} {}", name, says), fmt::format("the graph has {}", has));
    }
  }

  void compare_sizes() {
    compare_number("num_hidden_layers", config_.num_layers,
                   static_cast<int64_t>(form_.layers.size()));
    compare_number("hidden_size", config_.hidden_size, form_.hidden_size);
    compare_number("vocab_size", config_.vocabulary_size, form_.vocabulary_size);
    if (form_.layers.empty()) return;
    compare_number("num_attention_heads", config_.num_heads, form_.layers[0].heads);
    compare_number("num_key_value_heads", config_.num_kv_heads, form_.layers[0].kv_heads);
  }

  void compare_softcaps() {
    const auto uncapped =
        layers_where(form_, [](const TokenLayer& layer) { return layer.softcap == 0; });
    if (config_.attention_softcap > 0 && !uncapped.empty()) {
      add(fmt::format("attn_logit_softcapping {:g}", config_.attention_softcap),
          fmt::format("the graph caps no scores of layers {}: the exporter dropped it",
                      listed(uncapped)));
    }
    if (config_.final_softcap > 0 && !caps_logits(graph_)) {
      add(fmt::format("final_logit_softcapping {:g}", config_.final_softcap),
          "the graph caps no logits: the exporter dropped it");
    }
  }

  // A window as long as every context is none.
  void compare_windows() {
    const int64_t window = config_.sliding_window;
    if (window == 0 || (config_.max_context_length > 0 && window >= config_.max_context_length)) {
      return;
    }
    std::vector<size_t> missing, added, others;
    for (size_t i = 0; i < form_.layers.size(); ++i) {
      const int64_t found = window_of(form_.layers[i]);
      if (form_.layers[i].proven_length <= window && found == 0) continue;  // too short to tell
      if (i < config_.layer_types.size()) {
        const bool sliding = config_.layer_types[i].find("sliding") != std::string::npos;
        if (sliding && found == 0) missing.push_back(i);
        if (!sliding && found > 0) added.push_back(i);
      } else if (found == 0) {
        missing.push_back(i);
      }
      if (found > 0 && found != window) others.push_back(i);
    }
    // Without layer_types some families slide in every second layer only.
    const bool told = !config_.layer_types.empty();
    if (!missing.empty() && (told || missing.size() == form_.layers.size())) {
      add(fmt::format("sliding_window {}{}", window, told ? " for these layers" : ""),
          fmt::format("the graph's layers {} see everything", listed(missing)));
    }
    if (!added.empty()) {
      add("full attention for these layers",
          fmt::format("the graph's layers {} have a window", listed(added)));
    }
    if (!others.empty()) {
      add(fmt::format("sliding_window {}", window),
          fmt::format("layers {} of the graph have a window of {}", listed(others),
                      window_of(form_.layers[others[0]])));
    }
  }

  void compare_rope() {
    const bool chooses =
        std::any_of(form_.notes.begin(), form_.notes.end(), [](const std::string& note) {
          return note.find("chooses by length") != std::string::npos;
        });
    if (chooses) return;  // one of its sets is the configuration's
    for (const OtherRope& other : other_ropes(config_, graph_)) add(other.config, other.graph);
    if (config_.rope_type != "longrope") return;
    add(fmt::format("rope_type longrope, with other frequencies beyond {} tokens",
                    config_.original_context_length),
        "the graph holds one set for all lengths: the exporter froze it");
  }

  // Some norm of the graph uses it: those of q and k may have their own.
  void compare_norms() {
    double other = 0;
    for (const ir::Node& node : graph_.nodes()) {
      const bool is_norm = node.op == &ir::ops::kRmsNorm || node.op == &ir::ops::kLayerNorm ||
                           node.op == &ir::ops::kAddRmsNorm;
      if (!is_norm) continue;
      const double eps = node.attrs.as<ir::NormAttrs>().eps;
      if (std::abs(eps - config_.norm_eps) <= 0.01 * config_.norm_eps) return;
      other = eps;
    }
    if (config_.norm_eps > 0 && other > 0) {
      add(fmt::format("{} {:g}", config_.norm_eps_field, config_.norm_eps),
          fmt::format("the graph's norms have {:g}", other));
    }
  }

  const import::ConfigFacts& config_;
  const TokenForm& form_;
  const ir::Graph& graph_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> contradictions(const import::ConfigFacts& config, const TokenForm& form,
                                        const ir::Graph& graph) {
  return Comparison(config, form, graph).run();
}

}  // namespace kvern::compile
