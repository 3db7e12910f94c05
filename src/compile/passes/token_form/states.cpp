// The outputs that return caches: each must return, row for row, what attention reads.
#include <fmt/format.h>

#include <cmath>

#include "compile/passes/token_form/attention.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

std::string digits_of(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c >= '0' && c <= '9') out += c;
    if (c == '.' || c == '_') out += out.empty() || out.back() == ' ' ? "" : " ";
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// "past_key_values.0.key": what comes last counts.
bool says_key(const std::string& name) {
  const size_t key = name.rfind("key"), value = name.rfind("value");
  return key != std::string::npos && (value == std::string::npos || value < key);
}
bool says_value(const std::string& name) {
  const size_t key = name.rfind("key"), value = name.rfind("value");
  return value != std::string::npos && (key == std::string::npos || key < value) &&
         name.find("key_value", value < 4 ? 0 : value - 4) == std::string::npos;
}

// "present.0.key" and "past_k0" do; "278", which an exporter made up, does not.
bool numbers_layers(const std::string& name) {
  for (const char* word : {"past", "present", "cache", "key", "value", "layer", "kv", "state"}) {
    if (name.find(word) != std::string::npos) return !digits_of(name).empty();
  }
  return false;
}

// Names that number layers or tell keys from values must not contradict the data flow, unless the
// user says so.
void check_names(const Walk& walk, const std::string& past, const std::string& present) {
  const auto declared = walk.options.states.find(past);
  if (declared != walk.options.states.end() && declared->second == present) return;
  const bool numbers =
      numbers_layers(past) && numbers_layers(present) && digits_of(past) != digits_of(present);
  const bool kinds =
      (says_key(past) && says_value(present)) || (says_value(past) && says_key(present));
  if (!numbers && !kinds) return;
  throw Error(
      Code::kUnsupported,
      fmt::format("onnx: output '{}' returns the cache of input '{}': who feeds outputs back "
                  "by their names would swap two caches; export again, or declare the "
                  "states with --state {}={}",
                  present, past, past, present));
}

bool same_symbol(const Symbol& a, const Symbol& b, double b_factor) {
  for (int i = 0; i < 2; ++i) {
    if (a.base[i] != b.base[i] || (a.base[i] != kNothing && a.index[i] != b.index[i])) return false;
    if (std::abs(a.factor[i] - b.factor[i] / b_factor) > 1e-5 * (1 + std::abs(a.factor[i]))) {
      return false;
    }
  }
  return true;
}

class StateCheck {
 public:
  StateCheck(const Walk& walk, const std::string& output, const ReturnedCache& returned)
      : walk_(walk), output_(output), returned_(returned) {}

  void run() {
    check_names(walk_, origin(), output_);
    for (const SlotState& slot : walk_.slots) {
      if (slot.k.past == returned_.past) expect(slot.k);
      if (slot.v.past == returned_.past) expect(slot.v);
    }
    check_fresh();
    if (!returned_.problem.empty()) refuse(returned_.problem);
  }

 private:
  const std::string& origin() const {
    return walk_.emit.bases[static_cast<size_t>(returned_.past)].origin;
  }

  // place -> the symbols of each token there, in world 0.
  void expect(const CacheSide& side) {
    const int64_t tokens = walk_.worlds[0].batch * walk_.worlds[0].tokens;
    for (size_t head = 0; head < side.place.size(); ++head) {
      for (int64_t d = 0; d < side.dim; ++d) {
        auto& rows = fresh_[side.place[head].at(static_cast<size_t>(d))];
        for (int64_t token = 0; token < tokens; ++token) {
          const int64_t at = (static_cast<int64_t>(head) * tokens + token) * side.dim + d;
          rows.push_back({side.rows[0].at(static_cast<size_t>(at)), side.past_factor});
        }
      }
    }
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(Code::kUnsupported, fmt::format("onnx: output '{}' returns the cache '{}', but {}",
                                                output_, origin(), problem));
  }

  void check_fresh() const {
    for (const ReturnedCache::Fresh& row : returned_.fresh) {
      const auto found = fresh_.find(row.place);
      if (found == fresh_.end()) continue;  // nobody reads it
      const auto& [wanted, factor] = found->second.at(static_cast<size_t>(row.token));
      if (same_symbol(row.symbol, wanted, factor)) continue;
      refuse(
          fmt::format("the row that a new token adds ({}) is not the one that attention reads: "
                      "caches of two layers are swapped, or one is written twice",
                      row.position));
    }
  }

  const Walk& walk_;
  const std::string& output_;
  const ReturnedCache& returned_;
  std::map<int64_t, std::vector<std::pair<Symbol, double>>> fresh_;
};

// In long worlds too a cache holds all tokens, or its whole capacity: nothing is cropped.
void check_lengths(const Walk& walk, const std::string& output, const ReturnedCache& returned) {
  const Base& base = walk.emit.bases[static_cast<size_t>(returned.past)];
  const auto axis = static_cast<size_t>(base.length_axis);
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    const Shape& shape = returned.shapes[world];
    const int64_t before = base.past_shapes[world].at(axis);
    const int64_t total = walk.worlds[world].total();
    const int64_t wanted = before == walk.worlds[world].past ? total : before;
    if (shape.size() == base.past_shapes[world].size() && shape[axis] == wanted) continue;
    throw Error(
        Code::kUnsupported,
        fmt::format("onnx: output '{}' returns the cache '{}' as {} after {} tokens, where {} "
                    "rows are wanted: a cache that is cropped cannot be told from one that "
                    "forgets",
                    output, base.origin, to_string(shape), total, wanted));
  }
}

void check_declared(const Walk& walk, const std::map<std::string, std::string>& found) {
  for (const auto& [past, present] : walk.options.states) {
    const auto at = found.find(past);
    if (at != found.end() && at->second == present) continue;
    throw Error(Code::kInvalidArgument,
                fmt::format("--state {}={}: {}", past, present,
                            at == found.end()
                                ? "the graph has no cache input of that name that an output returns"
                                : fmt::format("by the data flow '{}' is returned by '{}'", past,
                                              at->second)));
  }
}

TokenCache cache_of(const Walk& walk, const CacheSide& side) {
  const Base& base = walk.emit.bases[static_cast<size_t>(side.past)];
  return {base.batch_axis, base.length_axis, side.place, side.fresh_factor / side.past_factor};
}

}  // namespace

void check_states(Walk& walk) {
  std::map<std::string, std::string> found;
  std::map<int32_t, std::string> output_of;
  for (const ir::TensorValueId id : walk.model.graph.outputs) {
    const auto held = walk.returned.find(id);
    if (held == walk.returned.end()) continue;
    const int32_t past = held->second.past;
    const std::string& name = walk.model.graph.name_of(id);
    const auto [at, is_new] = output_of.emplace(past, name);
    if (!is_new) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: outputs '{}' and '{}' both return the cache '{}'", at->second,
                              name, walk.emit.bases[static_cast<size_t>(past)].origin));
    }
    check_lengths(walk, name, held->second);
    StateCheck(walk, name, held->second).run();
    found[walk.emit.bases[static_cast<size_t>(past)].origin] = name;
  }
  check_declared(walk, found);
  const auto returned = [&](int32_t past) {
    return past < 0 ? std::string() : output_of.contains(past) ? output_of.at(past) : "";
  };
  for (size_t i = 0; i < walk.slots.size(); ++i) {
    const SlotState& slot = walk.slots[i];
    for (const int32_t past : {slot.k.past, slot.v.past}) {
      if (past < 0 || output_of.contains(past)) continue;
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: attention reads the cache '{}', but no output returns it; "
                              "export with the present outputs",
                              walk.emit.bases[static_cast<size_t>(past)].origin));
    }
    if (slot.k.past < 0) continue;
    TokenSlot& out = walk.out.slots.at(i);
    out.past_key = walk.emit.bases[static_cast<size_t>(slot.k.past)].origin;
    out.past_value = walk.emit.bases[static_cast<size_t>(slot.v.past)].origin;
    out.present_key = returned(slot.k.past);
    out.present_value = returned(slot.v.past);
    out.key = cache_of(walk, slot.k);
    out.value = cache_of(walk, slot.v);
    walk.out.had_cache = true;
  }
}

}  // namespace kvern::passes::token_form
