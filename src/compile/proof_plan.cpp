// Which runs prove most within the tokens that a model's size leaves.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compile/ir/ops.h"
#include "compile/passes/token_form/inputs.h"
#include "compile/proof_past.h"
#include "compile/proof_runs.h"
#include "kvern/error.h"

namespace kvern::compile {
namespace {

namespace tf = passes::token_form;

// One walk over all weights costs as much as so many tokens of a long run do (SmolLM2-135M, f32).
constexpr int64_t kTokensPerWalk = 7;
// 1e11 of parameters times tokens are some 40 s on one core.
constexpr int64_t kParameterTokens = 100'000'000'000;
constexpr int64_t kFirstRun = 8'000'000'000;  // of these the first, short run
constexpr int64_t kLongRun = 15'000'000'000;  // and the long one, within these bounds
constexpr int64_t kLongRunLeast = 96, kLongRunMost = 1024;
constexpr int64_t kLongRunOfSteps = 48;  // where each token is a step
// Of runs behind random caches.
constexpr int64_t kMostPast_bytes = int64_t{64} << 20;
constexpr size_t kMostFarRuns = 5;
// Spread of scores: e^1 looks at many rows alike, e^6 at one or two.
constexpr double kSharp = 6, kSoft = 1;

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

// Rows of the tables that `input` ("ids", "positions") chooses from; `otherwise` without any.
int64_t rows_chosen_by(const ir::Graph& graph, std::string_view input, int64_t otherwise) {
  int64_t rows = otherwise;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != &ir::ops::kInput || node.attrs.as<ir::InputAttrs>().name != input) continue;
    for (const size_t user : graph.users(node.outputs[0])) {
      const ir::Node& reader = graph.nodes()[user];
      if (reader.op != &ir::ops::kEmbedding) continue;
      const ir::Dim& dim = graph.value(reader.inputs[1]).type.dims.at(0);
      if (dim.is_constant()) rows = std::min(rows, dim.value());
    }
  }
  return rows;
}

// Total lengths at which the file chooses the tables that the plan holds.
struct Lengths {
  int64_t low = 1, high = int64_t{1} << 20;
  bool none = false;  // no one stretch of lengths: what is chosen goes to and fro
};

// The rows of a cache were turned by the tables of their own step: prompts too must be as long.
Lengths decided_lengths(const passes::TokenForm& form, const ProofOptions& options) {
  Lengths out;
  for (const passes::LengthChoice& choice : form.choices) {
    if (choice.same_at.empty() || choice.other_at.empty()) continue;
    const auto [same_low, same_high] =
        std::minmax_element(choice.same_at.begin(), choice.same_at.end());
    const auto [other_low, other_high] =
        std::minmax_element(choice.other_at.begin(), choice.other_at.end());
    const int64_t switches = options.original_context_length;  // by config.json
    if (*same_low > *other_high) {
      const bool told = switches >= *other_high && switches < *same_low;
      out.low = std::max(out.low, told ? switches + 1 : *same_low);
    } else if (*same_high < *other_low) {
      const bool told = switches >= *same_high && switches < *other_low;
      out.high = std::min(out.high, told ? switches : *same_high);
    } else {
      out.none = true;
    }
  }
  return out;
}

// The same run within `most` tokens: a shorter prompt, of at least `least`, then fewer steps.
ProofRun shortened(ProofRun run, int64_t least, int64_t most) {
  least = std::max<int64_t>(least, 1);
  run.steps[0] = std::max(run.steps[0], least);
  while (run.total() > most && run.steps.size() > 1 && run.steps[0] <= least) run.steps.pop_back();
  run.steps[0] = std::max(run.steps[0] - std::max<int64_t>(run.total() - most, 0), least);
  while (run.total() > most && run.steps.size() > 1) run.steps.pop_back();
  return run;
}

// What a file's form asks of its runs.
struct Forms {
  std::vector<int64_t> one;  // pads of a batch without any
  bool one_token_steps = false;
  bool one_token_prompts = false;
  bool has_past = false;
};

std::vector<int64_t> steps_of(const Forms& forms, std::vector<int64_t> steps) {
  int64_t total = 0;
  for (const int64_t tokens : steps) total += tokens;
  if (forms.one_token_prompts) {
    steps.assign(forms.has_past ? static_cast<size_t>(total) : 1, 1);
  } else if (forms.one_token_steps) {
    std::fill(steps.begin() + 1, steps.end(), 1);
  }
  return steps;
}

// In tokens: both sides, the converted one sequence by sequence in two steps at most.
int64_t cost_of(const ProofRun& run, const Forms& forms) {
  const auto steps = static_cast<int64_t>(run.steps.size());
  const int64_t walks = (forms.has_past ? steps : 1) + run.batch() * std::min<int64_t>(steps, 2);
  return run.real_tokens() + kTokensPerWalk * walks;
}

// What only shows far from the beginning: windows, tables that end, factors that set in. Within
// `most` tokens and a cost of `left`.
ProofRun long_run(const Forms& forms, const passes::TokenForm& form, int64_t parameters,
                  int64_t most, int64_t left) {
  const int64_t window = largest_window(form);
  int64_t wanted = std::clamp(kLongRun / parameters, kLongRunLeast, kLongRunMost);
  if (window > 0) wanted = std::max(wanted, window + 8);
  if (forms.one_token_prompts) wanted = kLongRunOfSteps;
  for (int64_t total = std::min(wanted, most); total > 4; total -= 1) {
    const ProofRun run = {steps_of(forms, {total - 4, 1, 3}), forms.one};
    if (cost_of(run, forms) <= left) return run;
  }
  return {{1}, forms.one};
}

// A plan whose tables nothing was compared with would be a guess.
[[noreturn]] void refuse_choices(const passes::TokenForm& form, int64_t budget) {
  std::string who = "the file", lengths;
  int64_t shorter = 0;
  if (!form.choices.empty()) {
    const passes::LengthChoice& choice = form.choices[0];
    who = fmt::format("{} chooses tables by length, and the plan holds those of {} tokens",
                      choice.node, choice.decided_at);
    if (!choice.other_at.empty()) {
      shorter = *std::min_element(choice.other_at.begin(), choice.other_at.end());
      for (const int64_t other : choice.other_at) {
        if (other < choice.decided_at) shorter = std::max(shorter, other);
      }
    }
  }
  throw Error(
      Code::kUnsupported,
      fmt::format("onnx: the conversion cannot be proved: {}; the file chooses them only in "
                  "runs longer than the {} tokens that a model of this size is given. No "
                  "plan was written. Build with a shorter --max-context-length{}, or with "
                  "--no-verify, unproved",
                  who, budget, shorter > 0 ? fmt::format(" ({} or less)", shorter) : ""));
}

void note_window(const passes::TokenForm& form, const std::vector<ProofRun>& runs,
                 std::vector<std::string>& notes) {
  const int64_t window = largest_window(form);
  const bool reached = std::any_of(runs.begin(), runs.end(), [&](const ProofRun& run) {
    return run.past + run.total() > window;
  });
  if (window > 0 && !reached) {
    notes.push_back(fmt::format("no run reached beyond the window of {} tokens", window));
  }
}

// Total lengths that fit, the longest first: where masks and tables were looked at.
std::vector<int64_t> far_totals(const ir::TensorModel& model, const passes::TokenForm& form,
                                const tf::InputPlan& plan, const ProofOptions& options, int64_t low,
                                int64_t high) {
  std::vector<int64_t> out;
  const int64_t most = kMostPast_bytes / row_bytes(form);
  for (const tf::World& w : tf::worlds_for(plan, model, options.conversion, 0)) {
    if (!w.layout) out.push_back(std::min(w.total(), most));
  }
  std::sort(out.begin(), out.end(), std::greater<>());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  std::erase_if(out,
                [&](int64_t total) { return total < std::max<int64_t>(low, 24) || total > high; });
  return out;
}

}  // namespace

bool has_shared_scales(const ir::TensorModel& model, const ProofOptions& options) {
  return options.conversion.per_token_dynamic_quant &&
         (has_op(model.graph, "DynamicQuantizeLinear") ||
          has_op(model.graph, "DynamicQuantizeMatMul"));
}

int64_t fixed_batch(const ir::TensorModel& model, const ProofOptions& options) {
  return tf::plan_inputs(model, options.conversion).batch;
}

int64_t proof_budget(const ProofOptions& options) {
  return std::clamp<int64_t>(kParameterTokens / std::max<int64_t>(options.num_parameters, 1), 1,
                             2048);
}

int64_t num_ids(const passes::TokenForm& form, const ir::Graph& graph) {
  return rows_chosen_by(graph, "ids", form.vocabulary_size);
}

namespace {

// Tokens that the file's tables, caches and the plan have room for.
int64_t room_of(const ir::Graph& graph, const tf::InputPlan& plan, const ProofOptions& options,
                int64_t high) {
  int64_t room = rows_chosen_by(graph, "positions", high);
  if (plan.capacity > 0) room = std::min(room, plan.capacity);
  const int64_t context = options.conversion.context_length;
  return context > 0 ? std::min(room, context) : room;
}

// Runs behind random caches, most telling first.
std::vector<ProofRun> far_runs(const ir::TensorModel& model, const passes::TokenForm& form,
                               const tf::InputPlan& plan, const ProofOptions& options,
                               const Forms& forms, const Lengths& lengths, int64_t room,
                               std::vector<std::string>& notes) {
  std::vector<ProofRun> out;
  // Its rounding would be taken for a difference.
  const std::string why = forms.one_token_prompts
                              ? "activations are rounded by scales of whole runs"
                              : why_no_random_past(model, form, plan);
  if (!why.empty()) {
    if (plan.has_past) notes.push_back("no run was made behind random caches: " + why);
    return out;
  }
  const bool exact = computes_in_f32(model);
  const auto add = [&](int64_t total, double spread, std::vector<int64_t> steps) {
    if (forms.one_token_steps) steps.assign(steps.size(), 1);
    ProofRun run{std::move(steps), forms.one};
    run.past = total - run.total();
    // Where scores are rounded, another row may be the largest.
    run.spread = exact ? spread : kSoft;
    if (out.size() < kMostFarRuns) out.push_back(std::move(run));
  };
  const std::vector<int64_t> totals = far_totals(model, form, plan, options, lengths.low, room);
  for (const int64_t total : totals) {
    if (out.empty()) add(total, kSharp, {3, 1});
    add(total, out.size() == 1 ? kSoft : kSharp, {3});
  }
  return out;
}

}  // namespace

std::vector<ProofRun> choose_runs(const ir::TensorModel& model, const passes::TokenForm& form,
                                  const ir::Graph& graph, const ProofOptions& options,
                                  int64_t budget, std::vector<std::string>& notes) {
  const tf::InputPlan plan = tf::plan_inputs(model, options.conversion);
  const int64_t batch = std::max<int64_t>(plan.batch, 1);
  const Forms forms = {std::vector<int64_t>(static_cast<size_t>(batch), 0), form.one_token_steps,
                       has_shared_scales(model, options), plan.has_past};
  const Lengths lengths = decided_lengths(form, options);
  bool padded = false;
  if (forms.one_token_prompts) {
    notes.emplace_back(
        "the file rounds activations to 8 bits by one scale over all tokens of a run, the plan "
        "does not mix tokens: compared on runs of one token");
  } else {
    std::string why = why_not_padded(plan, form, graph);
    if (why.empty() && lengths.low > 1) why = "the graph chooses tables by length";
    padded = why.empty();
    if (!padded) notes.push_back("no left-padded batch was run: " + why);
  }
  const int64_t room = room_of(graph, plan, options, lengths.high);
  if (lengths.none || (forms.one_token_prompts && lengths.low > 1)) refuse_choices(form, budget);
  const int64_t parameters = std::max<int64_t>(options.num_parameters, 1);
  int64_t first_most =
      std::max<int64_t>(std::clamp<int64_t>(kFirstRun / parameters, 4, 512) / batch, 1);
  const bool few = first_most < 7 && lengths.low == 1;
  if (lengths.low > 1) first_most = std::max(first_most, lengths.low + 4);
  std::vector<ProofRun> out;
  int64_t left = budget;
  const auto take = [&](const ProofRun& wanted) {
    const ProofRun fitting =
        shortened(wanted, lengths.low, out.empty() ? std::min(room, first_most) : room);
    const int64_t cost = cost_of(fitting, forms);
    // The first, short as it is, is afforded in any case.
    const bool afforded = cost <= left || (out.empty() && lengths.low == 1);
    if (fitting.total() > room || !afforded) return;
    left -= cost;
    out.push_back(fitting);
  };
  const std::vector<int64_t> fewest = {std::max<int64_t>(first_most - 1, 1), 1};
  take({steps_of(forms, few ? fewest : std::vector<int64_t>{5, 1, 3}), forms.one});
  std::vector<ProofRun> far;
  if (!out.empty()) far = far_runs(model, form, plan, options, forms, lengths, room, notes);
  const auto take_far = [&](const ProofRun& run) {
    if (cost_of(run, forms) > left) return;
    left -= cost_of(run, forms);
    out.push_back(run);
  };
  if (!far.empty()) {
    take_far(far[0]);
    far.erase(far.begin());
  }
  const ProofRun longest = long_run(forms, form, parameters, room, left);
  if (!out.empty() && longest.total() > out[0].total()) take(longest);
  if (padded) take({steps_of(forms, {6, 1}), {0, 3}});
  take({steps_of(forms, {1, 1}), forms.one});
  if (out.empty()) refuse_choices(form, budget);
  for (const ProofRun& run : far) take_far(run);
  note_window(form, out, notes);
  return out;
}

}  // namespace kvern::compile
