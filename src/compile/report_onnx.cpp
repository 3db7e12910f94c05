#include "compile/report_onnx.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "compile/ir/ops.h"
#include "compile/proof_scope.h"

namespace kvern::compile {
namespace {

// What surrounds each attention of the plan's graph, by names that readers of papers know.
struct LayerParts {
  std::vector<std::string> norms;
  std::vector<std::string> mlp;
  std::vector<std::string> fused;
};

struct PartName {
  const ir::OpSchema* op;
  const char* norm;   // of the layer that the next attention opens
  const char* mlp;    // of the layer whose attention came before
  const char* fused;  // of the layer
};
constexpr PartName kParts[] = {
    {&ir::ops::kRmsNorm, "rms_norm", nullptr, nullptr},
    {&ir::ops::kLayerNorm, "layer_norm", nullptr, nullptr},
    {&ir::ops::kAddRmsNorm, "rms_norm", nullptr, "residual + rms_norm"},
    {&ir::ops::kQkvRopeAppend, nullptr, nullptr, "rope + append"},
    {&ir::ops::kSiluMul, nullptr, "gated silu", "silu * up"},
    {&ir::ops::kGeluTanhMul, nullptr, "gated gelu tanh", "gelu * up"},
    {&ir::ops::kGeluErfMul, nullptr, "gated gelu", "gelu * up"},
    {&ir::ops::kSilu, nullptr, "silu", nullptr},
    {&ir::ops::kGeluTanh, nullptr, "gelu tanh", nullptr},
    {&ir::ops::kGeluErf, nullptr, "gelu", nullptr},
    {&ir::ops::kQuickGelu, nullptr, "quick gelu", nullptr},
    {&ir::ops::kRelu, nullptr, "relu", nullptr},
};

void add_once(std::vector<std::string>& to, const std::string& name) {
  if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
}

std::vector<LayerParts> parts_of(const ir::Graph& graph, size_t num_layers) {
  std::vector<LayerParts> out(num_layers + 1);
  size_t attentions = 0;
  for (const ir::Node& node : graph.nodes()) {
    LayerParts& opening = out[std::min(attentions, num_layers)];
    LayerParts& open = out[attentions == 0 ? 0 : std::min(attentions, num_layers) - 1];
    if (node.op == &ir::ops::kKvAttention) ++attentions;
    for (const PartName& part : kParts) {
      if (part.op != node.op) continue;
      const bool per_head =
          node.op == &ir::ops::kRmsNorm && node.attrs.as<ir::NormAttrs>().heads > 1;
      if (part.norm != nullptr) add_once(opening.norms, per_head ? "rms_norm of q, k" : part.norm);
      if (part.mlp != nullptr) add_once(open.mlp, part.mlp);
      if (part.fused != nullptr) {
        add_once(node.op == &ir::ops::kQkvRopeAppend ? opening.fused : open.fused, part.fused);
      }
    }
  }
  out.resize(num_layers);
  return out;
}

Json layer_json(size_t index, const passes::TokenLayer& layer, const LayerParts& parts) {
  Json out = layer_facts(index, layer);
  out["norm"] = fmt::format("{}", fmt::join(parts.norms, ", "));
  out["mlp"] = fmt::format("{}", fmt::join(parts.mlp, ", "));
  out["fused"] = parts.fused;
  return out;
}

Json states_json(const passes::TokenForm& form) {
  Json out = Json::array();
  for (size_t i = 0; i < form.slots.size(); ++i) {
    const passes::TokenSlot& slot = form.slots[i];
    Json row{{"slot", i},
             {"layers", slot.layers},
             {"kv_heads", slot.kv_heads},
             {"dim_k", slot.dim_k},
             {"dim_v", slot.dim_v},
             {"window", slot.window},
             {"positions", slot.position_scheme}};
    row["states"] = Json::array();
    const auto add = [&](const std::string& past, const std::string& present) {
      if (!past.empty()) row["states"].push_back({{"past", past}, {"present", present}});
    };
    add(slot.past_key, slot.present_key);
    if (slot.past_value != slot.past_key) add(slot.past_value, slot.present_value);
    out.push_back(std::move(row));
  }
  return out;
}

Json proof_json(const OnnxFacts& facts) {
  const Proof& proof = facts.proof;
  Json out{{"status", proof.status}};
  if (proof.status == "passed") {
    out["compares"] = kProofCompares;
    out["not_compared"] = facts.not_compared;
    out["token_budget"] = proof.token_budget;
    out["tokens"] = proof.tokens;
    out["prompts"] = proof.runs.size();
    out["lengths"] = proof.lengths;
    out["runs"] = proof.runs;
    out["tolerance"] = proof.tolerance;
    out["tolerance_of"] = proof.tolerance_of;
    out["max_abs_diff"] = proof.max_abs_diff;
    out["max_rel_diff"] = proof.max_rel_diff;
    if (proof.kl_tokens > 0) {
      out["kl_of_per_token_scales"] = {
          {"tokens", proof.kl_tokens}, {"mean", proof.kl_mean}, {"max", proof.kl_max}};
    }
    if (facts.of_this_machine) out["seconds"] = proof.seconds;
  }
  if (!proof.notes.empty()) out["notes"] = proof.notes;
  return out;
}

Json generic_json(const OnnxFacts& facts) {
  const GenericShare& generic = facts.of_this_machine ? facts.generic_here : facts.generic;
  Json out{{"share_of_decode_step", generic.total},
           {"share_is", generic.measured ? "measured here" : "estimated by bytes"},
           {"estimated_by_bytes", facts.generic.total}};
  if (generic.measured) out["measured_here"] = generic.total;
  out["instructions"] = Json::array();
  for (const GenericShare::Line& line : generic.lines) {
    out["instructions"].push_back({{"value", line.source},
                                   {"node", line.node},
                                   {"family", line.family},
                                   {"share", line.share}});
  }
  return out;
}

}  // namespace

Json file_facts(const ir::TensorModel& model) {
  Json out{{"ir_version", model.ir_version}, {"producer", model.producer}};
  for (const auto& [domain, version] : model.opsets) {
    out["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
  }
  return out;
}

Json ports_json(const ir::TensorGraph& graph, const std::vector<ir::TensorValueId>& ids) {
  Json out = Json::array();
  for (const ir::TensorValueId id : ids) {
    const ir::TensorValue& value = graph.values[static_cast<size_t>(id)];
    Json dims = Json::array();
    for (const ir::TensorDim& dim : value.dims) {
      dims.push_back(dim.value >= 0 ? Json(dim.value) : Json(dim.name));
    }
    out.push_back({{"name", value.name}, {"type", ir::element_type_name(value.type)}});
    if (value.has_shape) out.back()["shape"] = std::move(dims);
  }
  return out;
}

Json layer_facts(size_t index, const passes::TokenLayer& layer) {
  return {{"layer", index},
          {"attention", layer.attention},
          {"node", layer.node},
          {"cache", layer.cache},
          {"slot", layer.slot},
          {"heads", layer.heads},
          {"kv_heads", layer.kv_heads},
          {"dim_k", layer.dim_k},
          {"dim_v", layer.dim_v},
          {"scale", layer.scale},
          {"softcap", layer.softcap},
          {"rope", layer.rope},
          {"mask", layer.mask},
          {"mask_proved_to", layer.proven_length}};
}

nlohmann::ordered_json onnx_report(const import::ImportedModel& model, const OnnxFacts& facts) {
  const passes::TokenForm& form = *facts.form;
  Json out = file_facts(*model.tensor);
  out["inputs"] = {
      {"ids", form.ids_input}, {"mask", form.mask_input}, {"positions", form.positions_input}};
  out["cache"] = form.had_cache ? form.capacity > 0 ? "static" : "growing" : "introduced";
  if (form.capacity > 0) out["capacity"] = form.capacity;
  out["worlds"] = form.worlds;
  const std::vector<LayerParts> parts = parts_of(model.graph, form.layers.size());
  out["layers"] = Json::array();
  for (size_t i = 0; i < form.layers.size(); ++i) {
    out["layers"].push_back(layer_json(i, form.layers[i], parts[i]));
  }
  out["slots"] = states_json(form);
  out["generic"] = generic_json(facts);
  out["notes"] = form.notes;
  out["proof"] = proof_json(facts);
  return out;
}

}  // namespace kvern::compile
