// Filters, tests, functions and methods: one row of a table each, with named parameters.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_context.h"
#include "text/jinja_value.h"

namespace kvern::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// What a call brought, in the order of the builtin's parameters; Undefined where nothing was given.
// A variadic builtin reads `raw` instead.
struct BoundArguments {
  std::vector<Value> values;
  const Arguments& raw;

  const Value& operator[](size_t i) const { return values[i]; }
  bool given(size_t i) const { return !values[i].undefined(); }
  int64_t integer_or(Context& context, size_t i, int64_t otherwise) const;
  std::string string_or(Context& context, size_t i, std::string_view otherwise) const;
};

struct Builtin {
  using Run = Value (*)(Context&, const Value& input, const BoundArguments&);
  std::string_view name;
  std::string_view parameters;  // "width first blank"; "*" = variadic
  Run run;
};

Value call(Context& context, const Builtin& builtin, const Value& input,
           const Arguments& arguments);

// nullptr when there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& receiver, std::string_view name);

std::span<const Builtin> text_filters();      // jinja_text.cpp
std::span<const Builtin> sequence_filters();  // jinja_sequence.cpp
std::span<const Builtin> text_methods();      // of strings, which are filters too: jinja_text.cpp
std::span<const Builtin> string_methods();    // jinja_string_methods.cpp

// The items that a `for` or a filter goes over: of a list, the keys of a dict, the characters of a
// string; none of an undefined value.
std::vector<Value> items_of(Context& context, const Value& value);

// `value.name` and `value[key]`; Undefined where there is nothing.
Value attribute(Context& context, const Value& value, const std::string& name);
Value subscript(Context& context, const Value& value, const Value& key);

const std::string& need_string(Context& context, const Value& value, std::string_view who);

}  // namespace kvern::text::jinja
