#include "text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvern/error.h"
#include "text/jinja_builtin.h"

namespace kvern::text::jinja {

void Context::fail(const std::string& problem) const {
  throw Error(Code::kInvalidRequest, fmt::format("chat template, line {}: {}", line_, problem));
}

void Context::unsupported(const std::string& what) const {
  throw Error(Code::kUnsupported, fmt::format("chat template, line {}: {} is not supported; pass a "
                                              "simpler template",
                                              line_, what));
}

const Value* Dict::find(Context& context, const Value& key) const {
  if (key.string()) return find(context, std::string_view(*key.string()));
  context.step(1 + entries.size() / 8);
  for (const auto& [name, value] : entries) {
    if (!name.string() && equal(context, name, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(Context& context, std::string_view key) const {
  context.step_search(entries.size(), key.size());
  for (const auto& [name, value] : entries) {
    if (name.string() && *name.string() == key) return &value;
  }
  return nullptr;
}

int Value::depth() const {
  if (list()) return list()->depth;
  if (dict()) return dict()->depth;
  if (loop()) return loop()->items.depth() + 1;
  if (cycler()) return cycler()->items.depth() + 1;
  return method() ? method()->depth : 0;
}

bool Value::holds_mutable() const {
  if (list()) return list()->holds_mutable;
  if (dict()) return dict()->is_namespace || dict()->holds_mutable;
  if (loop()) return true;
  if (cycler()) return cycler()->items.holds_mutable();
  return method() && method()->receiver->holds_mutable();
}

Value Value::constant(std::string text) {
  Value value;
  value.variant_ = std::make_shared<const Text>(Text{std::move(text), {}});
  return value;
}

Value Value::missing(std::string_view name) {
  Value value;
  value.variant_ = Undefined{std::string(name.substr(0, 64))};
  return value;
}

Value Value::text(Context& context, std::string text) {
  context.step(text.size() / 64);
  Charge charge(context, sizeof(Text) + text.size());
  Value value;
  value.variant_ = std::make_shared<const Text>(Text{std::move(text), std::move(charge)});
  return value;
}

Value Value::list(Context& context, std::vector<Value> items, ListKind kind) {
  context.step(items.size() / 8);
  auto list = std::make_shared<List>();
  // Twice, for what a growing vector sets aside and for the receivers of methods.
  list->charge = Charge(context, sizeof(List) + 2 * items.size() * sizeof(Value));
  list->kind = kind;
  for (const Value& item : items) {
    list->depth = std::max(list->depth, item.depth() + 1);
    list->holds_mutable = list->holds_mutable || item.holds_mutable();
  }
  if (list->depth > context.max_depth()) context.fail("lists are nested too deeply");
  list->items = std::move(items);
  Value value;
  value.variant_ = std::shared_ptr<const List>(std::move(list));
  return value;
}

Value Value::tuple(Context& context, std::vector<Value> items) {
  return list(context, std::move(items), ListKind::kTuple);
}

Value Value::generator(Context& context, std::vector<Value> items) {
  return list(context, std::move(items), ListKind::kGenerator);
}

Value Value::dict(Context& context, Entries entries, bool is_namespace) {
  context.step(entries.size() / 8);
  auto dict = std::make_shared<Dict>();
  dict->charge = Charge(context, sizeof(Dict) + 2 * entries.size() * sizeof(entries[0]));
  dict->is_namespace = is_namespace;
  for (const auto& [key, value] : entries) {
    dict->depth = std::max({dict->depth, key.depth() + 1, value.depth() + 1});
    dict->holds_mutable = dict->holds_mutable || value.holds_mutable() || key.holds_mutable();
  }
  if (dict->depth > context.max_depth()) context.fail("dicts are nested too deeply");
  if (is_namespace && dict->holds_mutable) context.unsupported("a namespace inside a namespace");
  dict->entries = std::move(entries);
  return Value(std::move(dict));
}

bool Value::truthy() const {
  if (boolean()) return *boolean();
  if (integer()) return *integer() != 0;
  if (real()) return *real() != 0;
  if (string()) return !string()->empty();
  if (list()) return generator() || !list()->items.empty();
  if (dict()) return dict()->is_namespace || !dict()->entries.empty();
  return !undefined() && !none();
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"undefined", "none", "bool",  "int",    "float",
                                         "string",    "list", "dict",  "method", "macro",
                                         "function",  "loop", "cycler"};
  static_assert(std::size(kNames) == std::variant_size_v<Variant>);
  return kNames[variant_.index()];
}

std::string Value::description() const {
  return undefined() ? fmt::format("undefined ('{}')", undefined_name()) : std::string(type_name());
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
    if (a.generator() || b.generator()) return a.list() == b.list();
    if (a.list()->kind != b.list()->kind) return false;
    const std::vector<Value>& left = a.list()->items;
    const std::vector<Value>& right = b.list()->items;
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [&](const Value& x, const Value& y) { return equal(context, x, y); });
  }
  if (a.dict() && b.dict()) {
    if (a.dict() == b.dict()) return true;
    if (a.dict()->is_namespace || b.dict()->is_namespace) return false;
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
  if (a.list() && b.list() && a.list()->kind == b.list()->kind && !a.generator()) {
    const std::vector<Value>& left = a.list()->items;
    const std::vector<Value>& right = b.list()->items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!equal(context, left[i], right[i])) return less(context, left[i], right[i]);
    }
    return left.size() < right.size();
  }
  context.fail(fmt::format("{} and {} have no order", a.description(), b.description()));
}

}  // namespace kvern::text::jinja
