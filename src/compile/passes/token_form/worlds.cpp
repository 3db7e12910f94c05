// The concrete sizes in which a graph is walked: small ones, whose elements are followed, and far
// ones, in which masks, tables and choices show what they do there.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compile/passes/token_form/inputs.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

// A mask of three rows is cheap at any length that a model has.
constexpr int64_t kLongestContext = int64_t{1} << 18;
constexpr int64_t kLongestConstant = 4200;
// Of tokens at once: the mask is as long as it is wide.
constexpr int64_t kLongestWhole = 2100;
constexpr int64_t kShortestFar = 40;
constexpr size_t kMostFar = 12;
constexpr size_t kMostFarWhole = 3;  // their masks live as long as the walk

void note_integers(const ir::TensorGraph& graph, std::vector<int64_t>& out) {
  const auto note = [&](const ir::Array& array) {
    if (array.count() != 1 || !(ir::is_integer(array.type()) || ir::is_float(array.type()))) return;
    const double value =
        ir::is_float(array.type()) ? array.to_f64(1)[0] : static_cast<double>(array.to_i64(1)[0]);
    if (value >= 2 && value <= (1 << 20)) out.push_back(static_cast<int64_t>(value));
  };
  for (const auto& [id, array] : graph.constants) note(array);
  for (const ir::TensorNode& node : graph.nodes) {
    for (const auto& [name, attr] : node.attrs) {
      if (const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr)) {
        note_integers(**body, out);
      }
      if (const auto* number = std::get_if<int64_t>(&attr)) {
        if (name.find("window") != std::string::npos && *number > 1) out.push_back(*number);
      }
    }
  }
}

// Lengths just beyond the numbers that the graph and config.json hold, at which it may begin to do
// something else: the longest last.
std::vector<int64_t> far_lengths(const ir::TensorModel& model, const TokenFormOptions& options,
                                 int64_t most, size_t count) {
  std::vector<int64_t> numbers = options.lengths;
  note_integers(model.graph, numbers);
  std::set<int64_t> lengths = {kShortestFar};
  for (const int64_t number : numbers) {
    if (number + 7 > kShortestFar && number + 7 <= most) lengths.insert(number + 7);
  }
  std::vector<int64_t> out(lengths.begin(), lengths.end());
  if (out.size() > count) {  // the shortest ones go: most numbers of a graph are dims
    out.erase(out.begin(), out.end() - static_cast<ptrdiff_t>(count));
  }
  return out;
}

int64_t batch_of(const InputPlan& plan, int64_t otherwise) {
  return plan.batch > 0 ? plan.batch : otherwise;
}

// What a graph does may depend on how many tokens come at once, not only on where: the same total
// by one token, by three, and by a whole prompt.
void add_far(int64_t batch, int64_t total, std::vector<World>& out) {
  out.push_back({batch, 1, total - 1, false});
  out.push_back({batch, std::min(total, kLongestWhole), 0, false});
}

// Where the graph chooses by length, it chooses as at the plan's own context length; a window
// below that shows there.
void add_deciding(const TokenFormOptions& options, int64_t batch, int64_t past, int64_t most,
                  std::vector<World>& worlds) {
  const int64_t total = std::min(options.context_length, most);
  if (total < 8) return;
  if (past > 0) worlds.push_back({batch, 1, total - 1, false});
  const int64_t held = past > 0 ? total - 3 : 0;
  worlds.push_back({batch, total - held, held, false});
}

std::vector<World> growing_worlds(const InputPlan& plan, const ir::TensorModel& model,
                                  const TokenFormOptions& options, int attempt) {
  const int64_t batch = batch_of(plan, 2), one = batch_of(plan, 1);
  std::vector<int64_t> far = {kShortestFar};
  if (attempt != 1) far = far_lengths(model, options, kLongestConstant, kMostFar);
  std::vector<World> out;
  if (attempt == kWorldAttempts - 1) {
    out = {{batch, 1, 4}, {one, 1, 5}, {one, 1, 9}};
    for (const int64_t past : far) out.push_back({one, 1, past, false});
    return out;
  }
  out = {{batch, 3, 4}, {one, 2, 9}};
  if (attempt < kWorldAttempts - 2) {
    out.push_back({one, 6, 0, false});  // the mask of the first tokens
    for (const int64_t past : far) out.push_back({one, 3, past, false});
    add_far(one, far.back() + 3, out);
  }
  add_deciding(options, one, 1, kLongestContext, out);
  for (World& w : out) {
    if (plan.free_capacity) w.capacity = w.total() + 5;
  }
  return out;
}

std::vector<World> static_worlds(const InputPlan& plan, const TokenFormOptions& options,
                                 int attempt) {
  const int64_t batch = batch_of(plan, 2), one = batch_of(plan, 1);
  const int64_t room = plan.capacity;
  if (room < 6) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: the static cache holds {} positions; at least 6 are needed to "
                            "prove its mask",
                            room));
  }
  std::vector<World> out = {{batch, 3, std::min<int64_t>(4, room - 4)},
                            {one, 2, std::min<int64_t>(9, room - 3)}};
  if (attempt < 2) {
    out.push_back({one, 6, 0, false});
    add_far(one, room, out);
    out.push_back({one, 3, room - 3, false});
  }
  if (options.context_length >= 8 && options.context_length < room) {
    out.push_back({one, 3, options.context_length - 3, false});  // decides
  }
  return out;
}

}  // namespace

std::vector<World> worlds_for(const InputPlan& plan, const ir::TensorModel& model,
                              const TokenFormOptions& options, int attempt) {
  if (plan.capacity > 0) return static_worlds(plan, options, attempt);
  if (plan.has_past) return growing_worlds(plan, model, options, attempt);
  const int64_t batch = batch_of(plan, 2), one = batch_of(plan, 1);
  std::vector<World> out = {{batch, 5, 0}, {one, 7, 0}};
  if (attempt < 2) {
    std::vector<int64_t> far = {kShortestFar};
    if (attempt == 0) far = far_lengths(model, options, kLongestWhole, kMostFarWhole);
    for (const int64_t tokens : far) out.push_back({one, tokens, 0, false});
  }
  add_deciding(options, one, 0, kLongestWhole, out);
  return out;
}

}  // namespace kvern::passes::token_form
