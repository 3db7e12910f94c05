// Filters over lists, dicts and strings.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

// `a.b.0` of a value.
Value path(Context& context, Value value, std::string_view names) {
  while (!names.empty()) {
    context.step();
    const size_t dot = names.find('.');
    const std::string name(names.substr(0, dot));
    const bool index = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    value = index ? attribute(context, value, name) : subscript(context, value, Value(name));
    names.remove_prefix(dot == names.npos ? names.size() : dot + 1);
  }
  return value;
}

Value otherwise(Context&, const Value& input, Given given) {
  const bool missing = input.undefined() || (given[1].truthy() && !input.truthy());
  if (!missing) return input;
  return given.given(0) ? given[0] : Value(std::string());
}

Value length(Context& context, const Value& input, Given) {
  if (input.list()) return Value(static_cast<int64_t>(input.list()->items.size()));
  if (input.dict()) return Value(static_cast<int64_t>(input.dict()->entries.size()));
  if (input.undefined()) return Value(int64_t{0});
  const std::string& text = need_string(context, input, "length");
  context.step(text.size() / 64);
  // One per character: bytes that do not continue one.
  return Value(static_cast<int64_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; })));
}

Value first(Context& context, const Value& input, Given) {
  const std::vector<Value> items = items_of(context, input);
  return items.empty() ? Value(Undefined{"the first of nothing"}) : items.front();
}

Value last(Context& context, const Value& input, Given) {
  const std::vector<Value> items = items_of(context, input);
  return items.empty() ? Value(Undefined{"the last of nothing"}) : items.back();
}

Value join(Context& context, const Value& input, Given given) {
  const std::string separator = given.string_or(context, 0, "");
  const std::string attribute = given.string_or(context, 1, "");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(context, input)) {
    if (!first) {
      context.charge(separator.size());
      out += separator;
    }
    first = false;
    out += to_string(context, path(context, item, attribute));
  }
  context.charge(out.size());
  return Value(std::move(out));
}

Value list(Context& context, const Value& input, Given) {
  return Value::list(context, items_of(context, input));
}

Value reverse(Context& context, const Value& input, Given) {
  std::vector<Value> items = items_of(context, input);
  std::reverse(items.begin(), items.end());
  if (!input.string()) return Value::list(context, std::move(items));
  std::string text;
  for (const Value& character : items) text += *character.string();
  return Value(std::move(text));
}

// What sorting and uniqueness compare: an attribute, in lower case unless case counts.
Value sort_key(Context& context, const Value& item, const std::string& attribute, bool cased) {
  Value key = path(context, item, attribute);
  if (cased || !key.string()) return key;
  context.charge(key.string()->size());
  return Value(to_lower(*key.string()));
}

Value sorted(Context& context, std::vector<Value> items, const std::string& attribute, bool cased,
             bool descending) {
  std::vector<std::pair<Value, Value>> keyed;  // key, item
  for (Value& item : items) {
    Value key = sort_key(context, item, attribute, cased);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return descending ? less(context, b.first, a.first) : less(context, a.first, b.first);
  });
  for (size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].second);
  return Value::list(context, std::move(items));
}

Value sort(Context& context, const Value& input, Given given) {
  return sorted(context, items_of(context, input), given.string_or(context, 2, ""),
                given[1].truthy(), given[0].truthy());
}

Value dict_sort(Context& context, const Value& input, Given given) {
  if (!input.dict()) context.fail("dictsort needs a dict");
  const std::string by = given.string_or(context, 1, "key");
  if (by != "key" && by != "value") context.fail("dictsort goes by 'key' or 'value'");
  std::vector<Value> items;
  for (const auto& [key, value] : input.dict()->entries) {
    context.charge(key.size());
    items.push_back(Value::tuple(context, {Value(key), value}));
  }
  return sorted(context, std::move(items), by == "key" ? "0" : "1", given[0].truthy(),
                given[2].truthy());
}

Value unique(Context& context, const Value& input, Given given) {
  const std::string attribute = given.string_or(context, 1, "");
  std::vector<Value> keys;
  std::vector<Value> kept;
  for (const Value& item : items_of(context, input)) {
    Value key = sort_key(context, item, attribute, given[0].truthy());
    const bool seen = std::any_of(keys.begin(), keys.end(),
                                  [&](const Value& other) { return equal(context, key, other); });
    if (seen) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return Value::list(context, std::move(kept));
}

Value items(Context& context, const Value& input, Given) {
  if (input.undefined()) return Value::list(context, {});
  if (!input.dict()) context.fail(fmt::format("items needs a dict, not {}", input.type_name()));
  std::vector<Value> out;
  for (const auto& [key, value] : input.dict()->entries) {
    out.push_back(Value::tuple(context, {Value(key), value}));
  }
  return Value::list(context, std::move(out));
}

Value sum(Context& context, const Value& input, Given given) {
  const std::string attribute = given.string_or(context, 0, "");
  int64_t total = given.integer_or(context, 1, 0);
  double real_total = 0;
  bool real = false;
  for (const Value& item : items_of(context, input)) {
    const Value value = path(context, item, attribute);
    if (!value.number()) context.fail(fmt::format("sum needs numbers, not {}", value.type_name()));
    real = real || value.real();
    if (value.real()) {
      real_total += *value.real();
    } else if (__builtin_add_overflow(total, value.as_integer(), &total)) {
      context.fail("a sum is too large");
    }
  }
  return real ? Value(real_total + static_cast<double>(total)) : Value(total);
}

Value extreme(Context& context, const Value& input, bool largest) {
  const std::vector<Value> all = items_of(context, input);
  if (all.empty()) return Value(Undefined{"the extreme of nothing"});
  return *std::min_element(all.begin(), all.end(), [&](const Value& a, const Value& b) {
    return largest ? less(context, b, a) : less(context, a, b);
  });
}

Value smallest(Context& context, const Value& input, Given) {
  return extreme(context, input, false);
}

Value greatest(Context& context, const Value& input, Given) {
  return extreme(context, input, true);
}

// The arguments behind the first `skip`.
Arguments rest(const Arguments& all, size_t skip) {
  Arguments out;
  for (size_t i = skip; i < all.positional.size(); ++i) out.positional.push_back(all.positional[i]);
  out.named = all.named;
  return out;
}

// map(attribute='x', default=y) or map('filter', its arguments…).
Value map(Context& context, const Value& input, Given given) {
  if (!input.truthy()) return Value::list(context, {});  // none too, as in Jinja
  std::vector<Value> out;
  if (given.raw.positional.empty()) {
    std::string attribute;
    Value missing;
    for (const auto& [name, value] : given.raw.named) {
      if (name == "attribute") {
        attribute = to_string(context, value);
      } else if (name == "default") {
        missing = value;
      } else {
        context.unsupported(fmt::format("the argument '{}' of 'map'", name));
      }
    }
    for (const Value& item : items_of(context, input)) {
      Value value = path(context, item, attribute);
      out.push_back(value.undefined() && !missing.undefined() ? missing : std::move(value));
    }
    return Value::list(context, std::move(out));
  }
  const std::string& name = need_string(context, given.raw.positional[0], "map");
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) context.unsupported(fmt::format("the filter '{}'", name));
  const Context::Level level(context);
  const Arguments arguments = rest(given.raw, 1);
  for (const Value& item : items_of(context, input)) {
    out.push_back(call(context, *filter, item, arguments));
  }
  return Value::list(context, std::move(out));
}

// select('test', …), reject, and with `by_attribute` selectattr('name', 'test', …), rejectattr.
Value chosen(Context& context, const Value& input, Given given, bool by_attribute, bool wanted) {
  if (!input.truthy()) return Value::list(context, {});
  const std::vector<Value>& positional = given.raw.positional;
  const size_t skip = by_attribute ? 1 : 0;
  if (positional.size() < skip) context.fail("selectattr needs an attribute");
  const std::string attribute =
      by_attribute ? need_string(context, positional[0], "selectattr") : "";
  const Builtin* test = nullptr;
  if (positional.size() > skip) {
    const std::string& name = need_string(context, positional[skip], "select");
    test = find_test(name == "==" ? "eq" : name == "!=" ? "ne" : name);
    if (test == nullptr) context.unsupported(fmt::format("the test '{}'", name));
  }
  const Arguments arguments = rest(given.raw, skip + 1);
  std::vector<Value> kept;
  for (const Value& item : items_of(context, input)) {
    const Value value = path(context, item, attribute);
    const bool holds = test ? call(context, *test, value, arguments).truthy() : value.truthy();
    if (holds == wanted) kept.push_back(item);
  }
  return Value::list(context, std::move(kept));
}

// clang-format off
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
    {"sort", "reverse case_sensitive attribute", sort},
    {"dictsort", "case_sensitive by reverse", dict_sort},
    {"unique", "case_sensitive attribute", unique},
    {"items", "", items},
    {"sum", "attribute start", sum},
    {"min", "", smallest},
    {"max", "", greatest},
    {"map", "*", map},
    {"select", "*", [](Context& c, const Value& v, Given a) { return chosen(c, v, a, false, true); }},
    {"reject", "*", [](Context& c, const Value& v, Given a) { return chosen(c, v, a, false, false); }},
    {"selectattr", "*", [](Context& c, const Value& v, Given a) { return chosen(c, v, a, true, true); }},
    {"rejectattr", "*", [](Context& c, const Value& v, Given a) { return chosen(c, v, a, true, false); }},
};
// clang-format on

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kFilters;
}

}  // namespace kvern::text::jinja
