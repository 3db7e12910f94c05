// Filters over lists, dicts and strings.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

Value otherwise(Context&, const Value& input, Given given) {
  const bool missing = input.undefined() || (given[1].truthy() && !input.truthy());
  if (!missing) return input;
  return given.given(0) ? given[0] : Value::constant("");
}

Value length(Context& context, const Value& input, Given) {
  return Value(length_of(context, input));
}

Value first(Context& context, const Value& input, Given) {
  const Value items = items_of(context, input);
  const std::vector<Value>& all = items.list()->items;
  return all.empty() ? Value::missing("the first of nothing") : all.front();
}

Value last(Context& context, const Value& input, Given) {
  if (input.generator()) context.fail("'last' needs a list, not a generator");
  const Value items = items_of(context, input);
  const std::vector<Value>& all = items.list()->items;
  return all.empty() ? Value::missing("the last of nothing") : all.back();
}

Value join(Context& context, const Value& input, Given given) {
  const std::string separator = given.string_or(context, 0, "");
  const bool by_attribute = given.given(1) && !given[1].none();
  const std::string attribute = given.string_or(context, 1, "");
  const Value items = items_of(context, input);
  std::string out;
  bool first = true;
  for (const Value& item : items.list()->items) {
    if (!std::exchange(first, false)) out += separator;
    out += to_string(context, by_attribute ? path(context, item, attribute) : item);
    context.step(1 + separator.size() / 64);
    context.need(out.size());
  }
  return Value::text(context, std::move(out));
}

Value list(Context& context, const Value& input, Given) {
  const Value items = items_of(context, input);
  return Value::list(context, items.list()->items);
}

Value reverse(Context& context, const Value& input, Given) {
  const Value items = items_of(context, input);
  const std::vector<Value>& all = items.list()->items;
  if (!input.string()) return Value::generator(context, {all.rbegin(), all.rend()});
  std::string text;
  for (auto character = all.rbegin(); character != all.rend(); ++character) {
    text += *character->string();
  }
  return Value::text(context, std::move(text));
}

Value items(Context& context, const Value& input, Given) {
  std::vector<Value> out;
  if (!input.undefined()) {
    if (!input.mapping()) {
      context.fail(fmt::format("items needs a dict, not {}", input.type_name()));
    }
    for (const auto& [key, value] : input.dict()->entries) {
      out.push_back(Value::tuple(context, {key, value}));
    }
  }
  return Value::generator(context, std::move(out));
}

Value sum(Context& context, const Value& input, Given given) {
  const bool by_attribute = given.given(0) && !given[0].none();
  const std::string attribute = given.string_or(context, 0, "");
  Value total = given.given(1) ? given[1] : Value(int64_t{0});
  if (total.string()) context.fail("sum does not add strings; use join");
  const Value items = items_of(context, input);
  for (const Value& item : items.list()->items) {
    total = operate(context, "+", total, by_attribute ? path(context, item, attribute) : item);
  }
  return total;
}

// Lists of `count` items; the last one filled up where there is something to fill it with.
Value batch(Context& context, const Value& input, Given given) {
  const int64_t count = given.integer_or(context, 0, 0);
  if (count < 1) context.fail("batch needs a number above 0");
  const Value items = items_of(context, input);
  std::vector<Value> batches;
  std::vector<Value> current;
  for (const Value& item : items.list()->items) {
    if (static_cast<int64_t>(current.size()) == count) {
      batches.push_back(Value::list(context, std::exchange(current, {})));
    }
    current.push_back(item);
  }
  if (!current.empty()) {
    const bool fill = given.given(1) && !given[1].none();
    if (fill) {
      context.need(static_cast<uint64_t>(count));
      context.step(static_cast<uint64_t>(count));
      while (static_cast<int64_t>(current.size()) < count) current.push_back(given[1]);
    }
    batches.push_back(Value::list(context, std::move(current)));
  }
  return Value::generator(context, std::move(batches));
}

// `count` lists of almost equal length.
Value slices(Context& context, const Value& input, Given given) {
  const int64_t count = given.integer_or(context, 0, 0);
  if (count < 1) context.fail("slice needs a number above 0");
  context.step(static_cast<uint64_t>(count));
  if (input.generator()) context.fail("slice needs a list, not a generator");
  const Value items = items_of(context, input);
  const std::vector<Value>& all = items.list()->items;
  const auto length = static_cast<int64_t>(all.size());
  const bool fill = given.given(1) && !given[1].none();
  std::vector<Value> out;
  auto from = all.begin();
  for (int64_t i = 0; i < count; ++i) {
    const bool longer = i < length % count;
    const auto to = from + length / count + (longer ? 1 : 0);
    std::vector<Value> part(from, to);
    if (fill && !longer) part.push_back(given[1]);
    out.push_back(Value::list(context, std::move(part)));
    from = to;
  }
  return Value::generator(context, std::move(out));
}

Value attr(Context& context, const Value& input, Given given) {
  const Value found = attribute(context, input, need_string(context, given[0], "attr"));
  return found.method() ? found : Value::missing(*given[0].string());  // never an item
}

constexpr Builtin kFilters[] = {
    {"default", "default_value boolean", otherwise},
    {"d", "default_value boolean", otherwise},
    {"length", "", length},
    {"count", "", length},
    {"first", "", first},
    {"last", "", last},
    {"join", "d attribute", join},
    {"list", "", list},
    {"reverse", "", reverse},
    {"items", "", items},
    {"sum", "attribute start", sum},
    {"batch", "linecount! fill_with", batch},
    {"slice", "slices! fill_with", slices},
    {"attr", "name!", attr},
};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kFilters;
}

}  // namespace kvern::text::jinja
