#include "text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvern/error.h"
#include "text/jinja_builtin.h"
#include "text/jinja_context.h"
#include "text/jinja_print.h"

namespace kvern::text::jinja {

void Context::fail(const std::string& problem) const {
  throw Error(Code::kInvalidRequest, fmt::format("chat template, line {}: {}", line_, problem));
}

void Context::unsupported(const std::string& what) const {
  throw Error(Code::kUnsupported, fmt::format("chat template, line {}: {} is not supported; pass a "
                                              "simpler template",
                                              line_, what));
}

const Value* Dict::find(Context& context, std::string_view key) const {
  context.step_search(entries.size(), key.size());
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

int Value::depth() const {
  if (list()) return list()->depth;
  if (dict()) return dict()->depth;
  return method() ? method()->depth : 0;
}

bool Value::holds_namespace() const {
  if (list()) return list()->holds_namespace;
  if (dict()) return dict()->is_namespace || dict()->holds_namespace;
  return method() && method()->receiver->holds_namespace();
}

Value Value::list(Context& context, std::vector<Value> items) {
  return sequence(context, std::move(items), false);
}

Value Value::tuple(Context& context, std::vector<Value> items) {
  return sequence(context, std::move(items), true);
}

Value Value::sequence(Context& context, std::vector<Value> items, bool is_tuple) {
  context.charge(items.size() * sizeof(Value));
  auto list = std::make_shared<List>();
  list->is_tuple = is_tuple;
  for (const Value& item : items) {
    list->depth = std::max(list->depth, item.depth() + 1);
    list->holds_namespace = list->holds_namespace || item.holds_namespace();
  }
  if (list->depth > context.max_depth()) context.fail("lists are nested too deeply");
  list->items = std::move(items);
  Value value;
  value.variant_ = std::shared_ptr<const List>(std::move(list));
  return value;
}

Value Value::dict(Context& context, std::vector<std::pair<std::string, Value>> entries,
                  bool is_namespace) {
  context.charge(entries.size() * sizeof(entries[0]));
  auto dict = std::make_shared<Dict>();
  dict->is_namespace = is_namespace;
  for (auto& [key, value] : entries) {
    context.charge(key.size());
    dict->depth = std::max(dict->depth, value.depth() + 1);
    dict->holds_namespace = dict->holds_namespace || value.holds_namespace();
  }
  if (dict->depth > context.max_depth()) context.fail("dicts are nested too deeply");
  if (is_namespace && dict->holds_namespace) context.unsupported("a namespace inside a namespace");
  dict->entries = std::move(entries);
  return Value(std::move(dict));
}

bool Value::truthy() const {
  if (boolean()) return *boolean();
  if (integer()) return *integer() != 0;
  if (real()) return *real() != 0;
  if (string()) return !string()->empty();
  if (list()) return !list()->items.empty();
  if (dict()) return dict()->is_namespace || !dict()->entries.empty();
  return !undefined() && !none();
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"undefined", "none",   "bool",    "int",
                                         "float",     "string", "list",    "dict",
                                         "method",    "macro",  "function"};
  static_assert(std::size(kNames) == std::variant_size_v<Variant>);
  return kNames[variant_.index()];
}

bool equal(Context& context, const Value& a, const Value& b) {
  context.step();
  if (a.number() && b.number()) {
    return a.real() || b.real() ? a.as_real() == b.as_real() : a.as_integer() == b.as_integer();
  }
  if (a.string() && b.string()) {
    context.step(std::min(a.string()->size(), b.string()->size()) / 64);
    return *a.string() == *b.string();
  }
  if (a.list() && b.list()) {
    if (a.list()->is_tuple != b.list()->is_tuple) return false;
    const std::vector<Value>& left = a.list()->items;
    const std::vector<Value>& right = b.list()->items;
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [&](const Value& x, const Value& y) { return equal(context, x, y); });
  }
  if (a.dict() && b.dict()) {
    if (a.dict() == b.dict()) return true;
    if (a.dict()->entries.size() != b.dict()->entries.size()) return false;
    for (const auto& [key, value] : a.dict()->entries) {
      const Value* other = b.dict()->find(context, key);
      if (other == nullptr || !equal(context, value, *other)) return false;
    }
    return true;
  }
  return (a.none() && b.none()) || (a.undefined() && b.undefined());
}

bool less(Context& context, const Value& a, const Value& b) {
  context.step();
  if (a.number() && b.number()) {
    return a.real() || b.real() ? a.as_real() < b.as_real() : a.as_integer() < b.as_integer();
  }
  if (a.string() && b.string()) {
    context.step(std::min(a.string()->size(), b.string()->size()) / 64);
    return *a.string() < *b.string();
  }
  context.fail(fmt::format("{} and {} have no order", a.type_name(), b.type_name()));
}

}  // namespace kvern::text::jinja
