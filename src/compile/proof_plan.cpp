// Which runs prove most within the tokens that a model's size leaves.
#include <algorithm>

#include "compile/ir/ops.h"
#include "compile/passes/token_form/inputs.h"
#include "compile/proof_runs.h"

namespace kvern::compile {
namespace {

namespace tf = passes::token_form;

bool has_op(const ir::TensorGraph& graph, std::string_view op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::TensorNode& node) {
    if (node.op == op) return true;
    return std::any_of(node.attrs.begin(), node.attrs.end(), [&](const auto& attr) {
      const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr.second);
      return body != nullptr && has_op(**body, op);
    });
  });
}

// Positions read by anything but a rotation: learned ones.
bool has_learned_positions(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != &ir::ops::kInput) continue;
    if (node.attrs.as<ir::InputAttrs>().name != "positions") continue;
    for (const size_t user : graph.users(node.outputs[0])) {
      if (graph.nodes()[user].op != &ir::ops::kRopeAngles) return true;
    }
  }
  return false;
}

// Empty: a left-padded batch means something to the graph.
std::string why_not_padded(const tf::InputPlan& plan, const passes::TokenForm& form,
                           const ir::Graph& graph) {
  const tf::InputPlan::Line* mask = nullptr;
  const tf::InputPlan::Line* positions = nullptr;
  for (const tf::InputPlan::Line& line : plan.lines) {
    if (line.role == "mask") mask = &line;
    if (line.role == "positions") positions = &line;
  }
  if (mask == nullptr || mask->dims.size() != 2) return "the graph has no mask per sequence";
  if (plan.batch > 0 && plan.batch != 2) return "the graph takes one sequence";
  if (plan.capacity > 0 || plan.free_capacity) return "the cache is static";
  for (const passes::TokenLayer& layer : form.layers) {
    if (layer.attention.find("GroupQueryAttention") != std::string::npos) {
      return "GroupQueryAttention pads on the right";
    }
  }
  if (positions != nullptr && (positions->dims.size() != 2 || positions->dims[0].value == 1)) {
    return "all sequences share their positions";
  }
  if (positions == nullptr && has_learned_positions(graph)) {
    return "positions are learned, and the graph takes none";
  }
  return "";
}

int64_t largest_window(const passes::TokenForm& form) {
  int64_t window = 0;
  for (const passes::TokenSlot& slot : form.slots) window = std::max(window, slot.window);
  return window;
}

// An exporter that traced the cached branch with one token: it is right for one.
bool steps_of_one(const passes::TokenForm& form) {
  return form.had_cache && !form.worlds.empty() &&
         std::all_of(form.worlds.begin(), form.worlds.end(), [](const std::string& world) {
           return world.find(", 1 tokens after") != std::string::npos;
         });
}

// The same run within `most` tokens: fewer in the prompt, then fewer steps.
ProofRun shortened(ProofRun run, int64_t most) {
  while (run.total() > most && run.steps.size() > 1 && run.steps[0] <= 1) run.steps.pop_back();
  run.steps[0] = std::max<int64_t>(run.steps[0] - std::max<int64_t>(run.total() - most, 0), 1);
  while (run.total() > most && run.steps.size() > 1) run.steps.pop_back();
  return run;
}

// Of tables that the graph chooses by length the plan holds those of its own context length:
// prompts must be so long that the file chooses the same. False when they cannot be.
bool move_past_switch(const passes::TokenForm& form, const ProofOptions& options, int64_t budget,
                      std::vector<ProofRun>& runs, std::vector<std::string>& notes) {
  const int64_t original = options.original_context_length;
  const bool chooses = std::any_of(
      form.notes.begin(), form.notes.end(),
      [](const std::string& note) { return note.find("chooses by length") != std::string::npos; });
  if (!chooses || (original > 0 && options.conversion.context_length <= original)) return true;
  if (original > 0 && original + 6 <= budget) {
    runs = {{{original + 1, 1, 3}, {0}}, {{original + 2, 1}, {0}}};
    return true;
  }
  notes.push_back(
      original > 0
          ? "the plan holds the tables of long contexts, and running the file over more than " +
                std::to_string(original) + " tokens takes too long"
          : "the graph chooses tables by length, and no config.json says at which");
  return false;
}

}  // namespace

bool has_shared_scales(const ir::TensorModel& model, const ProofOptions& options) {
  return options.conversion.per_token_dynamic_quant &&
         (has_op(model.graph, "DynamicQuantizeLinear") ||
          has_op(model.graph, "DynamicQuantizeMatMul"));
}

std::vector<ProofRun> choose_runs(const ir::TensorModel& model, const passes::TokenForm& form,
                                  const ir::Graph& graph, const ProofOptions& options,
                                  int64_t budget, std::vector<std::string>& notes) {
  const tf::InputPlan plan = tf::plan_inputs(model, options.conversion);
  const std::vector<int64_t> one(static_cast<size_t>(std::max<int64_t>(plan.batch, 1)), 0);
  const int64_t window = largest_window(form);
  const int64_t longer =
      window > 0 && window + 2 <= budget / 2 ? std::max<int64_t>(window + 2, 17) : 17;
  std::vector<ProofRun> wanted = {{{5, 1, 3}, one}, {{longer, 1, 1}, one}, {{1, 1}, one}};
  if (has_shared_scales(model, options)) {
    notes.emplace_back(
        "the file rounds activations to 8 bits by one scale over all tokens of a run, the plan "
        "does not mix tokens: compared on runs of one token");
    wanted = {{{1, 1, 1, 1, 1, 1}, one}, {{1, 1, 1}, one}};
    if (!plan.has_past) wanted = {{{1}, one}, {{1}, one}, {{1}, one}};
  } else if (const std::string why = why_not_padded(plan, form, graph); why.empty()) {
    wanted.insert(wanted.begin() + 1, {{6, 1}, {0, 3}});
  } else {
    notes.push_back("no left-padded batch was run: " + why);
  }
  if (steps_of_one(form)) {
    for (ProofRun& run : wanted) std::fill(run.steps.begin() + 1, run.steps.end(), 1);
  }
  if (!move_past_switch(form, options, budget, wanted, notes)) return {};
  int64_t room = plan.capacity > 0 ? plan.capacity : int64_t{1} << 20;
  if (options.conversion.context_length > 0) {
    room = std::min(room, options.conversion.context_length);
  }
  std::vector<ProofRun> out;
  int64_t left = budget;
  for (const ProofRun& run : wanted) {
    const ProofRun fitting = shortened(run, std::min(room, out.empty() ? left : room));
    if (!out.empty() && fitting.real_tokens() > left) continue;
    left -= fitting.real_tokens();
    out.push_back(fitting);
  }
  return out;
}

}  // namespace kvern::compile
