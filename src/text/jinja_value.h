// Values of the template language: Python's, as far as chat templates can tell. Copies share what
// they hold; only a namespace can change after it was made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvern::text::jinja {

class Context;
struct Statement;
class Value;
struct Builtin;

struct Undefined {
  std::string name;  // what was looked up, for messages
};
struct None {};

struct List {
  std::vector<Value> items;
  int depth = 1;  // of containers inside one another: bounds recursion over values
  bool holds_namespace = false;
  bool is_tuple = false;  // printed with (), unequal to any list
};

struct Dict {
  std::vector<std::pair<std::string, Value>> entries;  // in the order of insertion
  int depth = 1;
  bool holds_namespace = false;
  bool is_namespace = false;
  // A linear search, which the template pays for.
  const Value* find(Context& context, std::string_view key) const;
};

struct Method {
  const Builtin* builtin;
  std::shared_ptr<const Value> receiver;
  int depth = 1;
};

struct Macro {
  const Statement* statement;
};
struct Function {
  const Builtin* builtin;
};

class Value {
 public:
  using Variant =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const List>, std::shared_ptr<Dict>, Method, Macro, Function>;

  Value() : variant_(Undefined{}) {}
  Value(None none) : variant_(none) {}
  Value(Undefined undefined) : variant_(std::move(undefined)) {}
  Value(Method method) : variant_(std::move(method)) {}
  Value(Macro macro) : variant_(macro) {}
  Value(Function function) : variant_(function) {}
  explicit Value(bool value) : variant_(value) {}
  explicit Value(int64_t value) : variant_(value) {}
  explicit Value(double value) : variant_(value) {}
  explicit Value(std::string value)
      : variant_(std::make_shared<const std::string>(std::move(value))) {}
  explicit Value(std::shared_ptr<Dict> dict) : variant_(std::move(dict)) {}

  // Throw (through `context`) when nesting or the memory budget is exhausted.
  static Value list(Context& context, std::vector<Value> items);
  static Value tuple(Context& context, std::vector<Value> items);
  static Value dict(Context& context, std::vector<std::pair<std::string, Value>> entries,
                    bool is_namespace = false);

  bool undefined() const { return std::holds_alternative<Undefined>(variant_); }
  bool none() const { return std::holds_alternative<None>(variant_); }
  const bool* boolean() const { return std::get_if<bool>(&variant_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&variant_); }
  const double* real() const { return std::get_if<double>(&variant_); }
  const std::string* string() const { return pointee<const std::string>(); }
  const List* list() const { return pointee<const List>(); }
  Dict* dict() const { return pointee<Dict>(); }
  const Method* method() const { return std::get_if<Method>(&variant_); }
  const Macro* macro() const { return std::get_if<Macro>(&variant_); }
  const Function* function() const { return std::get_if<Function>(&variant_); }
  const std::string& undefined_name() const { return std::get<Undefined>(variant_).name; }

  // True for int, float and (as in Python) bool.
  bool number() const { return boolean() || integer() || real(); }
  // Of a number() that is not a float.
  int64_t as_integer() const { return boolean() ? *boolean() : *integer(); }
  double as_real() const { return real() ? *real() : static_cast<double>(as_integer()); }

  bool truthy() const;
  std::string_view type_name() const;  // "string", "list", … for messages
  int depth() const;
  bool holds_namespace() const;

 private:
  static Value sequence(Context& context, std::vector<Value> items, bool is_tuple);

  template <class T>
  T* pointee() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&variant_);
    return shared ? shared->get() : nullptr;
  }
  Variant variant_;
};

// Python's ==, str(), repr() and json.dumps(ensure_ascii=False).
bool equal(Context& context, const Value& a, const Value& b);
// Python's <, for two numbers or two strings.
bool less(Context& context, const Value& a, const Value& b);
std::string to_string(Context& context, const Value& value);
std::string to_json(Context& context, const Value& value, int indent);  // indent < 0: one line

}  // namespace kvern::text::jinja
