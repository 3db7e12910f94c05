#include "compile/passes/token_form/token_form.h"

#include <fmt/format.h>

#include "base/check.h"
#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/head.h"
#include "compile/passes/token_form/inputs.h"
#include "compile/passes/token_form/name_layers.h"
#include "compile/passes/token_form/walk.h"
#include "kvern/error.h"

namespace kvern::passes {
namespace tf = token_form;

namespace {

// The output that scores the vocabulary: by name, else the first of floats that is no cache.
ir::TensorValueId find_logits(const tf::Walk& walk, const std::vector<tf::Value>& values) {
  const ir::TensorGraph& graph = walk.model.graph;
  for (const ir::TensorValueId id : graph.outputs) {
    if (graph.name_of(id) == "logits") return id;
  }
  for (const ir::TensorValueId id : graph.outputs) {
    const tf::Value& value = values[static_cast<size_t>(id)];
    if (value.is_opaque() || value.shapes.empty() || !ir::is_float(value.type)) continue;
    if (value.shapes[0].size() == 3 && value.shapes[0].back() >= 2) return id;
  }
  throw Error(Code::kUnsupported,
              "onnx: no output holds logits (looked for 'logits' and for floats "
              "of [batch, length, vocabulary])");
}

void write_logits(tf::Walk& walk, tf::Value& value, const std::string& name) {
  if (value.is_opaque()) {
    throw Error(Code::kUnsupported, fmt::format("onnx: output '{}' cannot become token form: {}",
                                                name, value.reason()));
  }
  std::string why;
  const auto view = tf::as_view(walk, value, &why);
  const auto rows = view == nullptr ? std::nullopt : tf::rows_of(walk, *view, &why);
  if (!rows || rows->heads.size() != 1) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: output '{}' is not one row of scores per token: {}", name,
                            rows ? "rows differ" : why));
  }
  for (size_t world = 0; world < walk.num_layout; ++world) {
    const tf::World& w = walk.worlds[world];
    if (static_cast<int64_t>(rows->token[world].size()) != w.batch * w.tokens) {
      throw Error(
          Code::kUnsupported,
          fmt::format("onnx: output '{}' has {} rows for {} tokens; logits of all tokens are "
                      "wanted, so that prompts can be scored: export without the pruned head",
                      name, rows->token[world].size(), w.batch * w.tokens));
    }
    for (size_t i = 0; i < rows->token[world].size(); ++i) {
      const int32_t token = rows->token[world][i];
      if (token == static_cast<int32_t>(i)) continue;
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: row {} of output '{}' scores token {}: logits in the order of "
                              "the tokens are wanted",
                              i, name, token));
    }
  }
  const int32_t base = tf::materialise(walk, rows->heads[0], "logits", name);
  const auto scored = static_cast<int64_t>(rows->heads[0].index.size());
  if (walk.out.vocabulary_size < scored) {
    throw Error(
        Code::kUnsupported,
        fmt::format("onnx: output '{}' scores {} ids, of which the embedding has only {}: an "
                    "answer could not be read back",
                    name, scored, walk.out.vocabulary_size));
  }
  tf::check_head(walk, walk.emit.value_of(base), name);
  walk.out.vocabulary_size = scored;
  walk.emit.graph.add(ir::ops::kOutput, {walk.emit.value_of(base)},
                      ir::Attrs::of(ir::OutputAttrs{"logits"}), "");
}

void write_slots(tf::Walk& walk) {
  for (size_t i = 0; i < walk.slots.size(); ++i) {
    const tf::SlotState& slot = walk.slots[i];
    TokenSlot out;
    for (size_t layer = 0; layer < walk.out.layers.size(); ++layer) {
      const TokenLayer& found = walk.out.layers[layer];
      if (found.slot != static_cast<int64_t>(i)) continue;
      const int64_t window =
          found.mask.starts_with("window ") ? std::stoll(found.mask.substr(7)) : 0;
      out.window = out.layers.empty()               ? window
                   : out.window == 0 || window == 0 ? 0
                                                    : std::max(out.window, window);
      out.layers.push_back(static_cast<int64_t>(layer));
      out.position_scheme = found.mask == "alibi"  ? "alibi"
                            : found.rope == "none" ? "none"
                                                   : "rope";
    }
    out.kv_heads = slot.kv_heads;
    out.dim_k = slot.k.dim;
    out.dim_v = slot.v.dim;
    walk.out.slots.push_back(std::move(out));
  }
}

// Says which layers were found, however the walk ends.
class LayersFound {
 public:
  explicit LayersFound(tf::Walk& walk) : walk_(walk) {}
  LayersFound(const LayersFound&) = delete;
  LayersFound& operator=(const LayersFound&) = delete;
  ~LayersFound() {
    std::vector<TokenLayer>* to = walk_.options.layers_found;
    if (to != nullptr && walk_.out.layers.size() > to->size()) to->swap(walk_.out.layers);
  }

 private:
  tf::Walk& walk_;
};

TokenForm convert(const ir::TensorModel& model, const TokenFormOptions& options,
                  const tf::InputPlan& plan, std::vector<tf::World> worlds) {
  tf::Walk walk(model, options);
  const LayersFound found(walk);
  walk.worlds = std::move(worlds);
  walk.deciding = walk.worlds.size() - 1;
  for (const tf::World& w : walk.worlds) {
    walk.num_layout += w.layout ? 1 : 0;
    walk.out.worlds.push_back(
        fmt::format("batch {}, {} tokens after {}", w.batch, w.tokens, w.past));
  }
  std::vector<tf::Value> values(model.graph.values.size(), tf::opaque("not computed"));
  tf::bind_inputs(walk, plan, values);
  tf::walk_graph(walk, model.graph, values);
  const ir::TensorValueId logits = find_logits(walk, values);
  write_logits(walk, values[static_cast<size_t>(logits)], model.graph.name_of(logits));
  if (walk.slots.empty()) {
    throw Error(Code::kUnsupported,
                "onnx: the graph has no attention; Kvern runs decoders with a KV "
                "cache");
  }
  write_slots(walk);
  tf::check_states(walk);
  for (const ir::TensorValueId id : model.graph.outputs) {
    const tf::Value& value = values[static_cast<size_t>(id)];
    if (id != logits && value.is_opaque() && !walk.returned.contains(id)) {
      walk.out.notes.push_back(
          fmt::format("output '{}' is left out: {}", model.graph.name_of(id), value.reason()));
    }
  }
  walk.out.capacity = plan.capacity;
  walk.out.graph = std::move(walk.emit.graph);
  tf::name_layers(walk.out.graph);
  return std::move(walk.out);
}

// The graph as text, without what the file calls its nodes.
std::string nameless(const ir::Graph& graph) {
  ir::Graph copy = graph;
  for (ir::Node& node : copy.nodes()) node.source_name.clear();
  return ir::print(copy);
}

TokenForm convert_attempts(const ir::TensorModel& model, const TokenFormOptions& options,
                           const tf::InputPlan& plan) {
  // A length beyond the file's own tables stops the evaluation, not the import: shorter worlds
  // follow. A reason that they give too is the model's.
  for (int attempt = 0;; ++attempt) {
    try {
      return convert(model, options, plan, tf::worlds_for(plan, model, options, attempt));
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      const bool evaluation =
          error.code() == Code::kInvalidModel || error.code() == Code::kOutOfMemory;
      if (!evaluation || attempt + 2 >= tf::kWorldAttempts) throw;
    }
  }
}

// True where the file converts but for the plan's context length: its tables end before.
bool is_too_short(const ir::TensorModel& model, TokenFormOptions options,
                  const tf::InputPlan& plan) {
  if (options.context_length == 0) return false;
  options.context_length = 0;
  try {
    convert_attempts(model, options, plan);
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

// In worlds of one new token, far ones too where the file's tables reach them.
TokenForm convert_one_by_one(const ir::TensorModel& model, const TokenFormOptions& options,
                             const tf::InputPlan& plan) {
  std::vector<tf::World> worlds = tf::worlds_for(plan, model, options, tf::kWorldAttempts - 1);
  try {
    return convert(model, options, plan, worlds);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidModel) throw;
  }
  std::erase_if(worlds, [](const tf::World& w) { return !w.layout; });
  return convert(model, options, plan, std::move(worlds));
}

// A decoder whose cached branch was traced with one new token: right for one, while its other
// branch shows what several mean. Both must say the same of everything else.
TokenForm convert_branches(const ir::TensorModel& model, const TokenFormOptions& options,
                           const tf::InputPlan& plan) {
  TokenForm one = convert_one_by_one(model, options, plan);
  tf::InputPlan whole_plan = plan;
  whole_plan.has_past = false;
  for (tf::InputPlan::Line& line : whole_plan.lines) {
    if (line.role == "scalar" && line.meaning == "1") line.meaning.assign(1, '0');
  }
  const TokenForm whole = convert_attempts(model, options, whole_plan);
  if (nameless(one.graph) != nameless(whole.graph)) {
    throw Error(Code::kUnsupported,
                "onnx: the two branches of the decoder compute different things");
  }
  one.notes.push_back(
      "the branch with a cache was traced with one new token and is right only for "
      "one; the mask is that of the branch without");
  one.one_token_steps = true;
  for (size_t i = 0; i < one.layers.size(); ++i) {
    one.layers[i].mask = whole.layers[i].mask;
    one.layers[i].proven_length = whole.layers[i].proven_length;
  }
  return one;
}

}  // namespace

TokenForm to_token_form(const ir::TensorModel& model, const TokenFormOptions& options) {
  const tf::InputPlan plan = tf::plan_inputs(model, options);
  try {
    return convert_attempts(model, options, plan);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::kInvalidModel && is_too_short(model, options, plan)) {
      throw Error(error.code(),
                  fmt::format("{}: the file does not reach the plan's context length of {}; build "
                              "with a smaller --max-context-length",
                              error.what(), options.context_length));
    }
    if (!plan.has_branch) throw;
    try {
      return convert_branches(model, options, plan);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {  // the first reason counts
    }
    throw;
  }
}

}  // namespace kvern::passes
