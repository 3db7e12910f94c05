// Items, attributes, subscripts and slices of values.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "text/jinja_builtin.h"
#include "text/jinja_search.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

Value characters(Context& context, const std::string& text) {
  context.step(text.size());
  context.need(text.size());
  std::vector<Value> items;
  for (size_t at = 0; at < text.size();) {
    const size_t length = char_at(text, at).length_bytes;
    items.push_back(Value::text(context, text.substr(at, length)));
    at += length;
  }
  return Value::list(context, std::move(items));
}

std::vector<uint32_t> starts_of(Context& context, const std::string& text) {
  context.step(text.size() / 8);
  context.need(text.size() * sizeof(uint32_t));
  return character_starts(text);
}

// What `loop.name` is; Undefined when it is no attribute of loops.
Value loop_attribute(const Loop& loop, std::string_view name) {
  const std::vector<Value>& items = loop.items.list()->items;
  const auto count = static_cast<int64_t>(items.size());
  const int64_t i = loop.index0;
  if (name == "index") return Value(i + 1);
  if (name == "index0") return Value(i);
  if (name == "revindex") return Value(count - i);
  if (name == "revindex0") return Value(count - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == count);
  if (name == "length") return Value(count);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem" && i > 0) return items[static_cast<size_t>(i) - 1];
  if (name == "nextitem" && i + 1 < count) return items[static_cast<size_t>(i) + 1];
  return Value::missing(fmt::format("loop.{}", name.substr(0, 32)));
}

// A hashable value, in Python's sense.
bool can_be_key(const Value& key) {
  if (key.list() && key.list()->kind == ListKind::kTuple) {
    return std::all_of(key.list()->items.begin(), key.list()->items.end(), can_be_key);
  }
  return key.string() || key.number() || key.none();
}

}  // namespace

Value items_of(Context& context, const Value& value) {
  if (value.undefined()) return Value::list(context, {});
  if (value.generator()) {
    if (value.list()->consumed) return Value::list(context, {});
    value.list()->consumed = true;
    return value;
  }
  if (value.list()) return value;
  if (value.mapping()) {
    std::vector<Value> keys;
    for (const auto& entry : value.dict()->entries) keys.push_back(entry.first);
    return Value::list(context, std::move(keys));
  }
  if (value.string()) return characters(context, *value.string());
  if (value.loop()) {
    const Loop& loop = *value.loop();
    const auto& items = loop.items.list()->items;
    return Value::list(context, {items.begin() + loop.index0, items.end()});
  }
  context.fail(fmt::format("a {} has no items", value.type_name()));
}

int64_t length_of(Context& context, const Value& value) {
  if (value.undefined()) return 0;
  if (value.list() && !value.generator()) return static_cast<int64_t>(value.list()->items.size());
  if (value.mapping()) return static_cast<int64_t>(value.dict()->entries.size());
  if (value.loop()) return length_of(context, value.loop()->items);
  if (!value.string()) {
    context.fail(
        fmt::format("a {} has no length", value.generator() ? "generator" : value.type_name()));
  }
  const std::string& text = *value.string();
  context.step(text.size() / 16);
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += char_at(text, at).length_bytes) ++count;
  return count;
}

Value attribute(Context& context, const Value& value, const std::string& name) {
  if (value.undefined()) {
    context.fail(fmt::format("'{}' is undefined, so it has no '{}'", value.undefined_name(),
                             name.substr(0, 64)));
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
  if (value.loop()) return loop_attribute(*value.loop(), name);
  if (value.list() && value.list()->kind == ListKind::kGroup) {
    if (name == "grouper") return value.list()->items[0];
    if (name == "list") return value.list()->items[1];
  }
  if (value.cycler() && !value.cycler()->is_joiner && name == "current") {
    return value.cycler()->items.list()->items[value.cycler()->next];
  }
  return Value::missing(name);
}

Value subscript(Context& context, const Value& value, const Value& key) {
  if (value.undefined()) {
    context.fail(fmt::format("'{}' is undefined, so it cannot be indexed", value.undefined_name()));
  }
  if (value.dict()) {
    if (const Value* found = value.dict()->find(context, key)) return *found;
  }
  if (key.string()) return attribute(context, value, *key.string());
  if (!key.whole() || value.generator() || (!value.list() && !value.string())) {
    return Value::missing("an item");
  }
  int64_t index = key.as_integer();
  if (value.list()) {
    const std::vector<Value>& items = value.list()->items;
    if (index < 0) index += static_cast<int64_t>(items.size());
    const bool inside = index >= 0 && index < static_cast<int64_t>(items.size());
    return inside ? items[static_cast<size_t>(index)] : Value::missing("an item");
  }
  const std::string& text = *value.string();
  const std::vector<uint32_t> starts = starts_of(context, text);
  const int64_t size = static_cast<int64_t>(starts.size()) - 1;
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value::missing("a character");
  return Value::text(context, text.substr(starts[index], starts[index + 1] - starts[index]));
}

Value path(Context& context, Value value, std::string_view names, const Value& otherwise) {
  while (!names.empty()) {
    context.step();
    const size_t dot = names.find('.');
    const std::string name(names.substr(0, dot));
    const bool index = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    value = index ? attribute(context, value, name)
                  : subscript(context, value, Value::text(context, name));
    if (value.undefined() && !otherwise.none()) value = otherwise;
    names.remove_prefix(dot == names.npos ? names.size() : dot + 1);
  }
  return value;
}

Value slice(Context& context, const Value& value, const SliceBounds& given) {
  if (value.undefined()) {
    context.fail(fmt::format("'{}' is undefined, so it cannot be sliced", value.undefined_name()));
  }
  if ((!value.list() || value.generator()) && !value.string()) {
    context.fail(fmt::format("a {} cannot be sliced", value.type_name()));
  }
  std::vector<uint32_t> starts;  // of a string's characters
  if (value.string()) starts = starts_of(context, *value.string());
  const auto size =
      static_cast<int64_t>(value.list() ? value.list()->items.size() : starts.size() - 1);
  const auto number = [&](const Value& part, int64_t absent) {
    if (part.none()) return absent;
    if (!part.whole()) context.fail("a slice needs integers");
    return part.as_integer();
  };
  const int64_t step = std::clamp<int64_t>(number(given.step, 1), -size - 1, size + 1);
  if (step == 0) context.fail("a slice's step cannot be 0");
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto place = [&](const Value& part, int64_t absent) {
    if (part.none()) return absent;
    const int64_t i = number(part, 0);
    return std::clamp(i < 0 ? std::max(i, -size - 1) + size : i, low, high);
  };
  const int64_t start = place(given.start, step > 0 ? low : high);
  const int64_t stop = place(given.stop, step > 0 ? high : low);
  std::vector<Value> items;
  std::string text;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (value.list()) {
      items.push_back(value.list()->items[static_cast<size_t>(i)]);
    } else {
      text.append(*value.string(), starts[i], starts[i + 1] - starts[i]);
    }
  }
  return value.list() ? Value::list(context, std::move(items), value.list()->kind)
                      : Value::text(context, std::move(text));
}

void put(Context& context, Entries& entries, Value key, Value value) {
  if (!can_be_key(key)) {
    context.fail(fmt::format("{} cannot be the key of a dict", key.description()));
  }
  const size_t key_bytes = key.string() ? key.string()->size() : 0;
  context.step_search(entries.size(), key_bytes);
  const auto existing = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    if (key.string()) return entry.first.string() && *entry.first.string() == *key.string();
    return !entry.first.string() && equal(context, entry.first, key);
  });
  if (existing != entries.end()) {
    existing->second = std::move(value);
  } else {
    entries.emplace_back(std::move(key), std::move(value));
  }
}

bool contains(Context& context, const Value& container, const Value& item) {
  if (container.string()) {
    const std::string& needle = need_string(context, item, "'in' over a string");
    return find_text(context, *container.string(), needle, 0) != std::string::npos;
  }
  if (container.mapping()) return container.dict()->find(context, item) != nullptr;
  const Value items = items_of(context, container);
  const std::vector<Value>& all = items.list()->items;
  return std::any_of(all.begin(), all.end(),
                     [&](const Value& other) { return equal(context, item, other); });
}

}  // namespace kvern::text::jinja
