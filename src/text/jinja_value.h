// Values of the template language: Python's, as far as chat templates can tell. Copies share what
// they hold; only namespaces, loops, cyclers and joiners change after they were made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_context.h"

namespace kvern::text::jinja {

struct Statement;
struct Scope;
struct Builtin;
class Value;
using Entries = std::vector<std::pair<Value, Value>>;

struct Undefined {
  std::string name;  // what was looked up, for messages: see Value::missing
};
struct None {};

struct Text {
  std::string value;
  Charge charge;
};

enum class ListKind : uint8_t {
  kList,
  kTuple,     // printed with (), unequal to any list
  kGroup,     // of groupby: a tuple whose items are also .grouper and .list
  kGenerator  // what lazy filters give: true, without length or items, and gone over once
};

struct List {
  std::vector<Value> items;
  int depth = 1;  // of containers inside one another: bounds recursion over values
  bool holds_mutable = false;
  ListKind kind = ListKind::kList;
  mutable bool consumed = false;  // a generator that was gone over
  Charge charge;
};

struct Dict {
  Entries entries;  // in the order of insertion
  int depth = 1;
  bool holds_mutable = false;
  bool is_namespace = false;
  Charge charge;
  // A linear search, which the template pays for.
  const Value* find(Context& context, const Value& key) const;
  const Value* find(Context& context, std::string_view key) const;
};

struct Method {
  const Builtin* builtin;
  std::shared_ptr<const Value> receiver;
  int depth = 1;
};

struct Macro {
  const Statement* statement;
  std::weak_ptr<Scope> scope;  // where it was defined; weak, because that scope holds the macro
};
struct Function {
  const Builtin* builtin;
};

struct Loop;
struct Cycler;

class Value {
 public:
  using Variant = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                               std::shared_ptr<const List>, std::shared_ptr<Dict>, Method, Macro,
                               Function, std::shared_ptr<Loop>, std::shared_ptr<Cycler>>;

  Value() : variant_(Undefined{}) {}
  Value(None none) : variant_(none) {}
  Value(Method method) : variant_(std::move(method)) {}
  Value(Macro macro) : variant_(std::move(macro)) {}
  Value(Function function) : variant_(function) {}
  explicit Value(bool value) : variant_(value) {}
  explicit Value(int64_t value) : variant_(value) {}
  explicit Value(double value) : variant_(value) {}
  explicit Value(std::shared_ptr<Dict> dict) : variant_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Loop> loop) : variant_(std::move(loop)) {}
  explicit Value(std::shared_ptr<Cycler> cycler) : variant_(std::move(cycler)) {}

  // Part of the template itself, so never paid for.
  static Value constant(std::string text);
  // Undefined. The name is for messages and cut short.
  static Value missing(std::string_view name);

  // Throw (through `context`) when nesting, memory or steps are exhausted.
  static Value text(Context& context, std::string text);
  static Value list(Context& context, std::vector<Value> items, ListKind kind = ListKind::kList);
  static Value tuple(Context& context, std::vector<Value> items);
  static Value generator(Context& context, std::vector<Value> items);
  static Value dict(Context& context, Entries entries, bool is_namespace = false);

  bool undefined() const { return std::holds_alternative<Undefined>(variant_); }
  bool none() const { return std::holds_alternative<None>(variant_); }
  const bool* boolean() const { return std::get_if<bool>(&variant_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&variant_); }
  const double* real() const { return std::get_if<double>(&variant_); }
  const std::string* string() const {
    const auto* shared = std::get_if<std::shared_ptr<const Text>>(&variant_);
    return shared ? &(*shared)->value : nullptr;
  }
  const List* list() const { return pointee<const List>(); }
  Dict* dict() const { return pointee<Dict>(); }
  const Method* method() const { return std::get_if<Method>(&variant_); }
  const Macro* macro() const { return std::get_if<Macro>(&variant_); }
  const Function* function() const { return std::get_if<Function>(&variant_); }
  Loop* loop() const { return pointee<Loop>(); }
  Cycler* cycler() const { return pointee<Cycler>(); }
  const std::string& undefined_name() const { return std::get<Undefined>(variant_).name; }

  bool generator() const { return list() && list()->kind == ListKind::kGenerator; }
  bool mapping() const { return dict() && !dict()->is_namespace; }
  // True for int, float and (as in Python) bool.
  bool number() const { return boolean() || integer() || real(); }
  bool whole() const { return boolean() || integer(); }
  // Of a whole() number.
  int64_t as_integer() const { return boolean() ? *boolean() : *integer(); }
  double as_real() const { return real() ? *real() : static_cast<double>(as_integer()); }

  bool truthy() const;
  std::string_view type_name() const;  // "string", "list", … for messages
  std::string description() const;     // the same, with the name of what is undefined
  int depth() const;
  bool holds_mutable() const;  // so that it must not go into a mutable value: no cycles

 private:
  template <class T>
  T* pointee() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&variant_);
    return shared ? shared->get() : nullptr;
  }
  Variant variant_;
};

// `loop` inside {% for %}.
struct Loop {
  Value items;  // a list
  int64_t index0 = 0;
  Value last_seen;  // by loop.changed(): a list of its arguments
};

// cycler(…), or with one item joiner(…): nothing the first time, then the item.
struct Cycler {
  Value items;  // a list
  size_t next = 0;
  bool is_joiner = false;
};

// Python's ==, <, str() and repr().
bool equal(Context& context, const Value& a, const Value& b);
bool less(Context& context, const Value& a, const Value& b);
std::string to_string(Context& context, const Value& value);
std::string to_repr(Context& context, const Value& value);

}  // namespace kvern::text::jinja
