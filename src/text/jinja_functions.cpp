// Global functions, and the methods of loops and cyclers.
#include <fmt/format.h>

#include <ctime>

#include "kvern/error.h"
#include "text/jinja_builtin.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

Value raise_exception(Context& context, const Value&, Given given) {
  throw Error(Code::kInvalidRequest,
              "the chat template refuses this conversation: " + to_string(context, given[0]));
}

// dict(…) and namespace(…): pairs or a dict, then named values.
Value made_of(Context& context, Given given, bool is_namespace) {
  Entries entries;
  const std::vector<Value>& positional = given.raw.positional;
  if (positional.size() > 1) context.fail("dict() takes at most one argument without a name");
  if (!positional.empty() && positional[0].mapping()) {
    entries = positional[0].dict()->entries;
  } else if (!positional.empty()) {
    const Value pairs = items_of(context, positional[0]);
    for (const Value& pair : pairs.list()->items) {
      const Value parts = items_of(context, pair);
      if (parts.list()->items.size() != 2) context.fail("dict() needs pairs of key and value");
      put(context, entries, parts.list()->items[0], parts.list()->items[1]);
    }
  }
  for (const auto& [name, value] : given.raw.named) put(context, entries, name, value);
  for (const auto& [name, value] : entries) {
    if (is_namespace && name.string() && name.string()->starts_with("_")) {
      context.fail("attributes of a namespace cannot begin with '_'");
    }
  }
  return Value::dict(context, std::move(entries), is_namespace);
}

Value make_dict(Context& context, const Value&, Given given) {
  return made_of(context, given, false);
}

Value make_namespace(Context& context, const Value&, Given given) {
  return made_of(context, given, true);
}

Value range(Context& context, const Value&, Given given) {
  constexpr int64_t kMaxItems = 100'000;  // Jinja's sandbox has the same
  for (size_t i = 0; i < 3; ++i) {
    if (given[i].none() || (i < given.raw.positional.size() && !given.given(i))) {
      context.fail("range() needs integers");
    }
  }
  const int64_t first = given.integer_or(context, 0, 0);
  const int64_t start = given.given(1) ? first : 0;
  const int64_t stop = given.integer_or(context, 1, first);
  const int64_t step = given.integer_or(context, 2, 1);
  if (step == 0) context.fail("range()'s step cannot be 0");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() == kMaxItems) {
      context.fail(fmt::format("range() gives over {} items", kMaxItems));
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(context, std::move(items));
}

Value strftime_now(Context& context, const Value&, Given given) {
  const std::string& format = need_string(context, given[0], "strftime_now()");
  if (format.size() > 256) context.fail("strftime_now() takes formats of up to 256 bytes");
  const std::time_t now = static_cast<std::time_t>(context.unix_time_s());
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[4096];
  return Value::text(context,
                     std::string(text, std::strftime(text, sizeof(text), format.c_str(), &parts)));
}

Value make_cycler(Context& context, const Value&, Given given) {
  if (given.raw.positional.empty()) context.fail("cycler() needs items");
  auto cycler = std::make_shared<Cycler>();
  cycler->items = Value::list(context, given.raw.positional);
  return Value(std::move(cycler));
}

Value make_joiner(Context& context, const Value&, Given given) {
  auto joiner = std::make_shared<Cycler>();
  joiner->is_joiner = true;
  joiner->items = Value::list(context, {given.given(0) ? given[0] : Value::text(context, ", ")});
  return Value(std::move(joiner));
}

constexpr Builtin kFunctions[] = {
    {"raise_exception", "message!", raise_exception},
    {"namespace", "*", make_namespace},
    {"dict", "*", make_dict},
    {"range", "start! stop step", range},
    {"strftime_now", "format!", strftime_now},
    {"cycler", "*", make_cycler},
    {"joiner", "sep", make_joiner},
};

// --- methods of loop, cycler and joiner -----------------------------------------------------

Value loop_cycle(Context& context, const Value& input, Given given) {
  const std::vector<Value>& items = given.raw.positional;
  if (items.empty()) context.fail("loop.cycle() needs items");
  return items[static_cast<size_t>(input.loop()->index0) % items.size()];
}

Value loop_changed(Context& context, const Value& input, Given given) {
  const Value now = Value::list(context, given.raw.positional);
  if (now.holds_mutable()) context.unsupported("loop.changed() of a namespace or loop");
  Value& last = input.loop()->last_seen;
  const bool changed = last.undefined() || !equal(context, last, now);
  if (changed) last = now;
  return Value(changed);
}

constexpr Builtin kLoopMethods[] = {
    {"cycle", "*", loop_cycle},
    {"changed", "*", loop_changed},
};

Value cycler_next(Context&, const Value& input, Given) {
  Cycler& cycler = *input.cycler();
  const std::vector<Value>& items = cycler.items.list()->items;
  Value item = items[cycler.next];
  cycler.next = (cycler.next + 1) % items.size();
  return item;
}

Value cycler_reset(Context&, const Value& input, Given) {
  input.cycler()->next = 0;
  return Value(None{});
}

constexpr Builtin kCyclerMethods[] = {
    {"next", "", cycler_next},
    {"reset", "", cycler_reset},
};

}  // namespace

std::span<const Builtin> functions() {
  return kFunctions;
}
std::span<const Builtin> loop_methods() {
  return kLoopMethods;
}
std::span<const Builtin> cycler_methods() {
  return kCyclerMethods;
}

}  // namespace kvern::text::jinja
