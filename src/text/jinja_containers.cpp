// Methods of dicts and lists. Those that would change one are refused, as in the sandbox that
// transformers uses.
#include <fmt/format.h>

#include "text/jinja_builtin.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

Value dict_items(Context& context, const Value& input, Given) {
  std::vector<Value> items;
  for (const auto& [key, value] : input.dict()->entries) {
    items.push_back(Value::tuple(context, {key, value}));
  }
  return Value::list(context, std::move(items));
}

Value dict_keys(Context& context, const Value& input, Given) {
  return items_of(context, input);
}

Value dict_values(Context& context, const Value& input, Given) {
  std::vector<Value> items;
  for (const auto& entry : input.dict()->entries) items.push_back(entry.second);
  return Value::list(context, std::move(items));
}

Value dict_get(Context& context, const Value& input, Given given) {
  if (const Value* found = input.dict()->find(context, given[0])) return *found;
  return given.given(1) ? given[1] : Value(None{});
}

Value dict_copy(Context& context, const Value& input, Given) {
  return Value::dict(context, input.dict()->entries);
}

Value list_count(Context& context, const Value& input, Given given) {
  int64_t count = 0;
  for (const Value& item : input.list()->items) count += equal(context, item, given[0]) ? 1 : 0;
  return Value(count);
}

Value list_index(Context& context, const Value& input, Given given) {
  const std::vector<Value>& items = input.list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(context, items[i], given[0])) return Value(static_cast<int64_t>(i));
  }
  context.fail("index() found no such item");
}

Value list_copy(Context& context, const Value& input, Given) {
  return Value::list(context, input.list()->items);
}

Value refuse_change(Context& context, const Value& input, Given) {
  context.fail(
      fmt::format("the sandbox lets no template change a {}; build a new one instead (a + [b])",
                  input.type_name()));
}

constexpr Builtin kDictMethods[] = {
    {"items", "", dict_items},
    {"keys", "", dict_keys},
    {"values", "", dict_values},
    {"get", "key! default", dict_get},
    {"copy", "", dict_copy},
    {"update", "*", refuse_change},
    {"pop", "*", refuse_change},
    {"popitem", "*", refuse_change},
    {"setdefault", "*", refuse_change},
    {"clear", "*", refuse_change},
};

constexpr Builtin kListMethods[] = {
    {"count", "value!", list_count}, {"index", "value!", list_index},
    {"copy", "", list_copy},         {"append", "*", refuse_change},
    {"extend", "*", refuse_change},  {"insert", "*", refuse_change},
    {"pop", "*", refuse_change},     {"remove", "*", refuse_change},
    {"reverse", "*", refuse_change}, {"sort", "*", refuse_change},
    {"clear", "*", refuse_change},
};

}  // namespace

std::span<const Builtin> dict_methods() {
  return kDictMethods;
}
std::span<const Builtin> list_methods() {
  return kListMethods;
}

}  // namespace kvern::text::jinja
