// Filters that apply a filter or a test to every item: map, select, reject and their kin.
#include <fmt/format.h>

#include "text/jinja_builtin.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

// The arguments behind the first `skip`.
Arguments rest(const Arguments& all, size_t skip) {
  Arguments out;
  for (size_t i = skip; i < all.positional.size(); ++i) out.positional.push_back(all.positional[i]);
  out.named = all.named;
  return out;
}

// map(attribute='x', default=y).
Value map_attribute(Context& context, const Value& items, const Arguments& given) {
  Value attribute;
  Value missing;
  for (const auto& [name, value] : given.named) {
    if (*name.string() == "attribute") {
      attribute = value;
    } else if (*name.string() == "default") {
      missing = value;
    } else {
      context.unsupported(fmt::format("the argument '{}' of 'map'", name.string()->substr(0, 64)));
    }
  }
  if (attribute.undefined()) context.fail("map needs a filter or an attribute");
  const std::string names = to_string(context, attribute);
  std::vector<Value> out;
  for (const Value& item : items.list()->items) {
    out.push_back(path(context, item, names, missing));
  }
  return Value::generator(context, std::move(out));
}

// … or map('filter', its arguments…).
Value map(Context& context, const Value& input, Given given) {
  if (!input.truthy()) return Value::generator(context, {});  // none too, as in Jinja
  const Value items = items_of(context, input);
  if (given.raw.positional.empty()) return map_attribute(context, items, given.raw);
  const std::string& name = need_string(context, given.raw.positional[0], "map");
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) {
    context.unsupported(fmt::format("the filter '{}'", name.substr(0, 64)));
  }
  const Context::Level level(context);
  const Arguments arguments = rest(given.raw, 1);
  std::vector<Value> out;
  for (const Value& item : items.list()->items) {
    out.push_back(call(context, *filter, item, arguments));
  }
  return Value::generator(context, std::move(out));
}

enum class By { kItem, kAttribute };
enum class Keep { kMatching, kOthers };

// select('test', …), reject, and by attribute selectattr('name', 'test', …), rejectattr.
template <By kBy, Keep kKeep>
Value chosen(Context& context, const Value& input, Given given) {
  if (!input.truthy()) return Value::generator(context, {});
  const std::vector<Value>& positional = given.raw.positional;
  const size_t skip = kBy == By::kAttribute ? 1 : 0;
  if (positional.size() < skip) context.fail("selectattr needs an attribute");
  const std::string names = skip == 1 ? to_string(context, positional[0]) : "";
  const Builtin* test = nullptr;
  if (positional.size() > skip) {
    const std::string& name = need_string(context, positional[skip], "select");
    test = find_test(name);
    if (test == nullptr) context.unsupported(fmt::format("the test '{}'", name.substr(0, 64)));
  }
  const Context::Level level(context);
  const Arguments arguments = rest(given.raw, skip + 1);
  const Value items = items_of(context, input);
  std::vector<Value> kept;
  for (const Value& item : items.list()->items) {
    context.step();
    const Value value = path(context, item, names);
    const bool holds = test ? call(context, *test, value, arguments).truthy() : value.truthy();
    if (holds == (kKeep == Keep::kMatching)) kept.push_back(item);
  }
  return Value::generator(context, std::move(kept));
}

constexpr Builtin kFilters[] = {
    {"map", "*", map},
    {"select", "*", chosen<By::kItem, Keep::kMatching>},
    {"reject", "*", chosen<By::kItem, Keep::kOthers>},
    {"selectattr", "*", chosen<By::kAttribute, Keep::kMatching>},
    {"rejectattr", "*", chosen<By::kAttribute, Keep::kOthers>},
};

}  // namespace

std::span<const Builtin> choice_filters() {
  return kFilters;
}

}  // namespace kvern::text::jinja
