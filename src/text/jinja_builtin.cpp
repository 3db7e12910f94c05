#include "text/jinja_builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "kvern/error.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

const Builtin* find(std::span<const Builtin> table, std::string_view name) {
  for (const Builtin& builtin : table) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

std::vector<std::string_view> split_names(std::string_view names) {
  std::vector<std::string_view> out;
  while (!names.empty()) {
    const size_t space = names.find(' ');
    out.push_back(names.substr(0, space));
    names.remove_prefix(space == names.npos ? names.size() : space + 1);
  }
  return out;
}

// --- functions ------------------------------------------------------------------------------

Value raise_exception(Context&, const Value&, const BoundArguments& given) {
  const std::string message = given[0].string() ? *given[0].string() : "(no message)";
  throw Error(Code::kInvalidRequest, "the chat template refuses this conversation: " + message);
}

Value make_namespace(Context& context, const Value&, const BoundArguments& given) {
  if (!given.raw.positional.empty()) context.unsupported("namespace() with unnamed arguments");
  return Value::dict(context, given.raw.named, true);
}

Value make_dict(Context& context, const Value&, const BoundArguments& given) {
  if (!given.raw.positional.empty()) context.unsupported("dict() with unnamed arguments");
  return Value::dict(context, given.raw.named);
}

Value range(Context& context, const Value&, const BoundArguments& given) {
  constexpr int64_t kMaxItems = 100'000;  // Jinja's sandbox has the same
  const int64_t first = given.integer_or(context, 0, 0);
  const int64_t start = given.given(1) ? first : 0;
  const int64_t stop = given.integer_or(context, 1, first);
  const int64_t step = given.integer_or(context, 2, 1);
  if (step == 0) context.fail("range()'s step cannot be 0");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() == kMaxItems)
      context.fail(fmt::format("range() gives over {} items", kMaxItems));
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  context.step(items.size() / 8);
  return Value::list(context, std::move(items));
}

Value strftime_now(Context& context, const Value&, const BoundArguments& given) {
  const std::string& format = need_string(context, given[0], "strftime_now()");
  if (format.size() > 256) context.fail("strftime_now() takes formats of up to 256 bytes");
  const std::time_t now = static_cast<std::time_t>(context.unix_time_s());
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[4096];
  return Value(std::string(text, std::strftime(text, sizeof(text), format.c_str(), &parts)));
}

constexpr Builtin kFunctions[] = {
    {"raise_exception", "message", raise_exception},
    {"namespace", "*", make_namespace},
    {"dict", "*", make_dict},
    {"range", "start stop step", range},
    {"strftime_now", "format", strftime_now},
};

// --- methods of dicts and lists -------------------------------------------------------------

Value dict_items(Context& context, const Value& input, const BoundArguments&) {
  std::vector<Value> items;
  for (const auto& [key, value] : input.dict()->entries) {
    context.charge(key.size());
    items.push_back(Value::tuple(context, {Value(key), value}));
  }
  return Value::list(context, std::move(items));
}

Value dict_keys(Context& context, const Value& input, const BoundArguments&) {
  return Value::list(context, items_of(context, input));
}

Value dict_values(Context& context, const Value& input, const BoundArguments&) {
  std::vector<Value> items;
  for (const auto& entry : input.dict()->entries) items.push_back(entry.second);
  return Value::list(context, std::move(items));
}

Value dict_get(Context& context, const Value& input, const BoundArguments& given) {
  const Value* found =
      given[0].string() ? input.dict()->find(context, *given[0].string()) : nullptr;
  if (found != nullptr) return *found;
  return given.given(1) ? given[1] : Value(None{});
}

constexpr Builtin kDictMethods[] = {
    {"items", "", dict_items},
    {"keys", "", dict_keys},
    {"values", "", dict_values},
    {"get", "key default", dict_get},
};

Value list_count(Context& context, const Value& input, const BoundArguments& given) {
  int64_t count = 0;
  for (const Value& item : input.list()->items) count += equal(context, item, given[0]) ? 1 : 0;
  return Value(count);
}

Value list_index(Context& context, const Value& input, const BoundArguments& given) {
  const std::vector<Value>& items = input.list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(context, items[i], given[0])) return Value(static_cast<int64_t>(i));
  }
  context.fail("index() found no such item");
}

constexpr Builtin kListMethods[] = {
    {"count", "value", list_count},
    {"index", "value", list_index},
};

}  // namespace

int64_t BoundArguments::integer_or(Context& context, size_t i, int64_t otherwise) const {
  if (!given(i) || values[i].none()) return otherwise;
  if (values[i].number() && !values[i].real()) return values[i].as_integer();
  context.fail(
      fmt::format("argument {} must be an integer, not a {}", i + 1, values[i].type_name()));
}

std::string BoundArguments::string_or(Context& context, size_t i,
                                      std::string_view otherwise) const {
  return given(i) && !values[i].none() ? to_string(context, values[i]) : std::string(otherwise);
}

Value call(Context& context, const Builtin& builtin, const Value& input,
           const Arguments& arguments) {
  BoundArguments bound{{}, arguments};
  if (builtin.parameters == "*") return builtin.run(context, input, bound);
  const std::vector<std::string_view> names = split_names(builtin.parameters);
  if (arguments.positional.size() > names.size()) {
    context.fail(fmt::format("'{}' takes {} arguments, {} were given", builtin.name, names.size(),
                             arguments.positional.size()));
  }
  bound.values = arguments.positional;
  bound.values.resize(names.size());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      context.unsupported(fmt::format("the argument '{}' of '{}'", name, builtin.name));
    }
    bound.values[found - names.begin()] = value;
  }
  return builtin.run(context, input, bound);
}

const Builtin* find_filter(std::string_view name) {
  const Builtin* found = find(text_filters(), name);
  return found ? found : find(sequence_filters(), name);
}

const Builtin* find_function(std::string_view name) {
  return find(kFunctions, name);
}

const Builtin* find_method(const Value& receiver, std::string_view name) {
  if (receiver.string()) {
    const Builtin* found = find(text_methods(), name);
    return found ? found : find(string_methods(), name);
  }
  if (receiver.list()) return find(kListMethods, name);
  if (receiver.dict() && !receiver.dict()->is_namespace) return find(kDictMethods, name);
  return nullptr;
}

std::vector<Value> items_of(Context& context, const Value& value) {
  std::vector<Value> items;
  if (value.undefined()) return items;
  if (value.list()) {
    context.step(value.list()->items.size() / 8);
    context.charge(value.list()->items.size() * sizeof(Value));
    return value.list()->items;
  }
  if (value.dict()) {
    context.step(value.dict()->entries.size());
    for (const auto& entry : value.dict()->entries) {
      context.charge(entry.first.size());
      items.emplace_back(entry.first);
    }
    return items;
  }
  if (!value.string()) context.fail(fmt::format("a {} has no items", value.type_name()));
  const std::string& text = *value.string();
  context.step(text.size());
  context.charge(text.size() * (sizeof(Value) + sizeof(std::string)));
  const std::vector<uint32_t> starts = character_starts(text);
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    items.emplace_back(text.substr(starts[i], starts[i + 1] - starts[i]));
  }
  return items;
}

Value attribute(Context& context, const Value& value, const std::string& name) {
  if (value.undefined()) {
    context.fail(fmt::format("'{}' is undefined, so it has no '{}'", value.undefined_name(), name));
  }
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') {
    return subscript(context, value, Value(static_cast<int64_t>(std::atoll(name.c_str()))));
  }
  context.step(name.size() / 64);
  // As in Python, a method hides a key of the same name.
  if (const Builtin* method = find_method(value, name)) {
    return Value(Method{method, std::make_shared<const Value>(value), value.depth() + 1});
  }
  if (value.dict()) {
    if (const Value* found = value.dict()->find(context, name)) return *found;
  }
  return Value(Undefined{name});
}

Value subscript(Context& context, const Value& value, const Value& key) {
  if (value.undefined()) {
    context.fail(fmt::format("'{}' is undefined, so it cannot be indexed", value.undefined_name()));
  }
  if (key.string()) {
    if (value.dict()) {
      if (const Value* found = value.dict()->find(context, *key.string())) return *found;
    }
    return attribute(context, value, *key.string());
  }
  const bool integer = key.number() && !key.real();
  if (!integer || (!value.list() && !value.string())) return Value(Undefined{"an item"});
  int64_t index = key.as_integer();
  if (value.list()) {
    const std::vector<Value>& items = value.list()->items;
    if (index < 0) index += static_cast<int64_t>(items.size());
    const bool inside = index >= 0 && index < static_cast<int64_t>(items.size());
    return inside ? items[static_cast<size_t>(index)] : Value(Undefined{"an item"});
  }
  const std::string& text = *value.string();
  context.step(text.size() / 8);
  context.charge(text.size() * sizeof(uint32_t));
  const std::vector<uint32_t> starts = character_starts(text);
  const int64_t size = static_cast<int64_t>(starts.size()) - 1;
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value(Undefined{"a character"});
  return Value(text.substr(starts[index], starts[index + 1] - starts[index]));
}

const std::string& need_string(Context& context, const Value& value, std::string_view who) {
  if (value.string()) return *value.string();
  context.fail(fmt::format("{} needs a string, not {}", who,
                           value.undefined()
                               ? fmt::format("undefined ('{}')", value.undefined_name())
                               : std::string(value.type_name())));
}

}  // namespace kvern::text::jinja
