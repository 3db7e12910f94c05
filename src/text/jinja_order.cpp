// Filters that compare items: sort, dictsort, unique, groupby, min and max.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;
using Keyed = std::pair<Value, Value>;  // key, item

// Strings in lower case unless case counts.
Value folded(Context& context, Value key, bool cased) {
  if (cased || !key.string()) return key;
  return Value::text(context, to_lower(*key.string()));
}

// What is compared: the item, its attribute, or several attributes ("a,b").
class KeyOf {
 public:
  KeyOf(Context& context, const Value& attribute, bool cased) : context_(context), cased_(cased) {
    if (attribute.undefined() || attribute.none()) return;
    const std::string names = to_string(context, attribute);
    for (size_t at = 0; at <= names.size();) {
      const size_t comma = std::min(names.find(',', at), names.size());
      paths_.push_back(names.substr(at, comma - at));
      at = comma + 1;
    }
  }

  Value operator()(const Value& item) const {
    if (paths_.empty()) return folded(context_, item, cased_);
    return folded(context_, path(context_, item, paths_[0]), cased_);
  }
  // All of them, as a list: items that are equal then need no order.
  Value all(const Value& item) const {
    std::vector<Value> parts;
    if (paths_.empty()) parts.push_back(folded(context_, item, cased_));
    for (const std::string& one : paths_) {
      parts.push_back(folded(context_, path(context_, item, one), cased_));
    }
    return Value::list(context_, std::move(parts));
  }

 private:
  Context& context_;
  bool cased_;
  std::vector<std::string> paths_;
};

enum class Order { kAscending, kDescending };

void sort_by_key(Context& context, std::vector<Keyed>& all, Order order) {
  std::stable_sort(all.begin(), all.end(), [&](const Keyed& a, const Keyed& b) {
    return order == Order::kDescending ? less(context, b.first, a.first)
                                       : less(context, a.first, b.first);
  });
}

Value items_behind(Context& context, std::vector<Keyed> all) {
  std::vector<Value> items;
  for (Keyed& one : all) items.push_back(std::move(one.second));
  return Value::list(context, std::move(items));
}

Order order_of(const Value& descending) {
  return descending.truthy() ? Order::kDescending : Order::kAscending;
}

Value sort(Context& context, const Value& input, Given given) {
  const Value items = items_of(context, input);
  const KeyOf key_of(context, given[2], given[1].truthy());
  std::vector<Keyed> all;
  for (const Value& item : items.list()->items) all.emplace_back(key_of.all(item), item);
  sort_by_key(context, all, order_of(given[0]));
  return items_behind(context, std::move(all));
}

Value dict_sort(Context& context, const Value& input, Given given) {
  if (!input.mapping()) context.fail("dictsort needs a dict");
  const std::string by = given.string_or(context, 1, "key");
  if (by != "key" && by != "value") context.fail("dictsort goes by 'key' or 'value'");
  std::vector<Keyed> all;
  for (const auto& [key, value] : input.dict()->entries) {
    all.emplace_back(folded(context, by == "key" ? key : value, given[0].truthy()),
                     Value::tuple(context, {key, value}));
  }
  sort_by_key(context, all, order_of(given[2]));
  return items_behind(context, std::move(all));
}

Value unique(Context& context, const Value& input, Given given) {
  const Value items = items_of(context, input);
  const KeyOf key_of(context, given[1], given[0].truthy());
  Entries seen;  // as a set
  bool seen_undefined = false;
  std::vector<Value> kept;
  for (const Value& item : items.list()->items) {
    const Value key = key_of(item);
    const size_t before = seen.size();
    const bool is_new = key.undefined()
                            ? !std::exchange(seen_undefined, true)
                            : (put(context, seen, key, Value(None{})), seen.size() > before);
    if (is_new) kept.push_back(item);
  }
  return Value::generator(context, std::move(kept));
}

Value group_by(Context& context, const Value& input, Given given) {
  const std::string attribute = to_string(context, given[0]);
  const bool cased = given[2].truthy();
  const Value items = items_of(context, input);
  std::vector<Keyed> all;
  std::vector<Value> names;  // as written
  for (const Value& item : items.list()->items) {
    Value name = path(context, item, attribute);
    if (name.undefined() && given.given(1)) name = given[1];
    Value key = folded(context, name, cased);
    all.emplace_back(std::move(key), Value::tuple(context, {std::move(name), item}));
  }
  sort_by_key(context, all, Order::kAscending);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < all.size();) {
    std::vector<Value> members;
    size_t end = begin;
    for (; end < all.size() && equal(context, all[end].first, all[begin].first); ++end) {
      members.push_back(all[end].second.list()->items[1]);
    }
    groups.push_back(Value::list(
        context, {all[begin].second.list()->items[0], Value::list(context, std::move(members))},
        ListKind::kGroup));
    begin = std::max(end, begin + 1);  // a key that is not even equal to itself: NaN
  }
  return Value::list(context, std::move(groups));
}

Value extreme(Context& context, const Value& input, Given given, Order first) {
  const Value items = items_of(context, input);
  const KeyOf key_of(context, given[1], given[0].truthy());
  std::vector<Keyed> all;
  for (const Value& item : items.list()->items) all.emplace_back(key_of(item), item);
  if (all.empty()) return Value::missing("the extreme of nothing");
  return std::min_element(all.begin(), all.end(),
                          [&](const Keyed& a, const Keyed& b) {
                            return first == Order::kDescending ? less(context, b.first, a.first)
                                                               : less(context, a.first, b.first);
                          })
      ->second;
}

Value smallest(Context& context, const Value& input, Given given) {
  return extreme(context, input, given, Order::kAscending);
}

Value greatest(Context& context, const Value& input, Given given) {
  return extreme(context, input, given, Order::kDescending);
}

constexpr Builtin kFilters[] = {
    {"sort", "reverse case_sensitive attribute", sort},
    {"dictsort", "case_sensitive by reverse", dict_sort},
    {"unique", "case_sensitive attribute", unique},
    {"groupby", "attribute! default case_sensitive", group_by},
    {"min", "case_sensitive attribute", smallest},
    {"max", "case_sensitive attribute", greatest},
};

}  // namespace

std::span<const Builtin> order_filters() {
  return kFilters;
}

}  // namespace kvern::text::jinja
