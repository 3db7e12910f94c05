// The outputs that return caches: each must return, row for row, what attention reads.
#include <fmt/format.h>

#include <cmath>

#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/cache_rows.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

struct Side {
  const SlotState* slot;
  const CacheSide* side;
  const char* what;
};

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

// The past that an output returns: that of its first element from one; -1 for none.
int32_t past_of(const Walk& walk, const View& view) {
  for (const ir::Array& array : view.elements) {
    for (const Symbol& s : symbols(array)) {
      if (s.base[0] >= 0 &&
          walk.emit.bases[static_cast<size_t>(s.base[0])].kind == Base::Kind::kPast) {
        return s.base[0];
      }
    }
  }
  return -1;
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
  StateCheck(const Walk& walk, const std::string& output, const View& view, int32_t past)
      : walk_(walk), output_(output), view_(view), past_(past) {}

  void run() {
    const Base& base = walk_.emit.bases[static_cast<size_t>(past_)];
    check_names(walk_, base.origin, output_);
    std::vector<Side> sides;
    for (const SlotState& slot : walk_.slots) {
      if (slot.k.past == past_) sides.push_back({&slot, &slot.k, "keys"});
      if (slot.v.past == past_) sides.push_back({&slot, &slot.v, "values"});
    }
    for (const Side& side : sides) expect(side);
    for (size_t world = 0; world < walk_.num_layout; ++world) check_world(world, base);
  }

 private:
  // place -> the symbols of each token there, in world 0.
  void expect(const Side& side) {
    const int64_t tokens = walk_.worlds[0].batch * walk_.worlds[0].tokens;
    const int64_t dim = side.side->dim;
    for (size_t head = 0; head < side.side->place.size(); ++head) {
      for (int64_t d = 0; d < dim; ++d) {
        auto& rows = fresh_[side.side->place[head].at(static_cast<size_t>(d))];
        for (int64_t token = 0; token < tokens; ++token) {
          const int64_t at = (static_cast<int64_t>(head) * tokens + token) * dim + d;
          rows.push_back({side.side->rows[0].at(static_cast<size_t>(at)), side.side->past_factor});
        }
      }
    }
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: output '{}' returns the cache '{}', but {}", output_,
                            walk_.emit.bases[static_cast<size_t>(past_)].origin, problem));
  }

  void check_world(size_t world, const Base& base) const {
    const World& w = walk_.worlds[world];
    const Shape& shape = view_.elements[world].shape();
    const Shape& past_shape = base.past_shapes[world];
    if (shape.size() != past_shape.size()) refuse("in another layout");
    const std::span<const Symbol> all = symbols(view_.elements[world]);
    for (size_t i = 0; i < all.size(); ++i) {
      const PastPlace at = past_place(base, shape, w.batch, static_cast<int64_t>(i));
      const Symbol& s = all[i];
      if (at.position < w.past) {
        const PastPlace from = past_place(base, past_shape, w.batch, s.index[0]);
        if (s.base[0] != past_ || s.base[1] != kNothing || s.factor[0] != 1 ||
            from.batch != at.batch || from.position != at.position || from.place != at.place) {
          refuse(fmt::format("its row {} is not the row of the past there", at.position));
        }
      } else if (at.position < w.total() && world == 0) {
        const auto found = fresh_.find(at.place);
        if (found == fresh_.end()) continue;  // nobody reads it
        const auto token = static_cast<size_t>(at.batch * w.tokens + at.position - w.past);
        const auto& [wanted, factor] = found->second.at(token);
        if (!same_symbol(s, wanted, factor)) {
          refuse(
              fmt::format("the row that a new token adds ({}) is not the one that attention "
                          "reads: caches of two layers are swapped, or one is written twice",
                          at.position));
        }
      } else if (at.position >= w.total() && s.base[0] != past_) {
        refuse(fmt::format("it has {} rows after {} tokens: something is cached twice",
                           shape[static_cast<size_t>(base.length_axis)], w.total()));
      }
    }
  }

  const Walk& walk_;
  const std::string& output_;
  const View& view_;
  int32_t past_;
  std::map<int64_t, std::vector<std::pair<Symbol, double>>> fresh_;
};

// In long worlds too a cache holds all tokens, or its whole capacity: nothing is cropped.
void check_lengths(const Walk& walk, const std::string& output, const Value& value, int32_t past) {
  const Base& base = walk.emit.bases[static_cast<size_t>(past)];
  const auto axis = static_cast<size_t>(base.length_axis);
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    const Shape& shape = value.shapes[world];
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

}  // namespace

void check_states(Walk& walk, const std::vector<Value>& values) {
  std::map<std::string, std::string> found;
  std::map<int32_t, std::string> output_of;
  for (const ir::TensorValueId id : walk.model.graph.outputs) {
    const Value& value = values[static_cast<size_t>(id)];
    const View* view = value.get<View>();
    if (view == nullptr) continue;
    const int32_t past = past_of(walk, *view);
    if (past < 0) continue;
    const std::string& name = walk.model.graph.name_of(id);
    const auto [at, is_new] = output_of.emplace(past, name);
    if (!is_new) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: outputs '{}' and '{}' both return the cache '{}'", at->second,
                              name, walk.emit.bases[static_cast<size_t>(past)].origin));
    }
    check_lengths(walk, name, value, past);
    StateCheck(walk, name, *view, past).run();
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
    walk.out.had_cache = true;
  }
}

}  // namespace kvern::passes::token_form
