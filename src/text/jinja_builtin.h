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
  std::vector<std::pair<Value, Value>> named;  // key: a string
};

// What a call brought, in the order of the builtin's parameters; Undefined where nothing was given.
// A variadic builtin reads `raw` instead.
struct BoundArguments {
  std::vector<Value> values;
  const Arguments& raw;

  // Undefined behind the last, too: a filter may have fewer parameters than the method it calls.
  const Value& operator[](size_t i) const;
  bool given(size_t i) const { return !(*this)[i].undefined(); }
  int64_t integer_or(Context& context, size_t i, int64_t otherwise) const;
  std::string string_or(Context& context, size_t i, std::string_view otherwise) const;
};

struct Builtin {
  using Run = Value (*)(Context&, const Value& input, const BoundArguments&);
  std::string_view name;
  std::string_view parameters;  // "old! new! count": "!" = must be given; "*" = variadic
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
std::span<const Builtin> number_filters();    // jinja_numbers.cpp
std::span<const Builtin> sequence_filters();  // jinja_sequence.cpp
std::span<const Builtin> order_filters();     // jinja_order.cpp
std::span<const Builtin> choice_filters();    // jinja_choice.cpp
std::span<const Builtin> case_methods();      // jinja_case.cpp; filters too, but for title
std::span<const Builtin> split_methods();     // of strings: jinja_split.cpp
std::span<const Builtin> string_methods();    // jinja_string_methods.cpp
std::span<const Builtin> search_methods();    // of strings: jinja_string_search.cpp
std::span<const Builtin> format_methods();    // jinja_format.cpp; filters too
std::span<const Builtin> list_methods();      // jinja_containers.cpp
std::span<const Builtin> dict_methods();
std::span<const Builtin> loop_methods();  // jinja_functions.cpp
std::span<const Builtin> cycler_methods();
std::span<const Builtin> functions();

// The items that a `for` or a filter goes over, as a list: of a list, the keys of a dict, the
// characters of a string; none of an undefined value. A generator is empty the next time.
Value items_of(Context& context, const Value& value);
// How many there are; of None and of generators a failure.
int64_t length_of(Context& context, const Value& value);

// `value.name` and `value[key]`; Undefined where there is nothing.
Value attribute(Context& context, const Value& value, const std::string& name);
Value subscript(Context& context, const Value& value, const Value& key);
// `a.b.0` of a value; `otherwise` (unless undefined or none) for every part that is not there.
Value path(Context& context, Value value, std::string_view names, const Value& otherwise = {});

struct SliceBounds {
  Value start, stop, step;  // None where absent
};
Value slice(Context& context, const Value& value, const SliceBounds& bounds);

// `left op right` for the operators of arithmetic, "~" included.
Value operate(Context& context, const std::string& op, const Value& left, const Value& right);
bool contains(Context& context, const Value& container, const Value& item);

// Replaces the value of an equal key, or appends. Fails for keys that Python cannot hash.
void put(Context& context, Entries& entries, Value key, Value value);

const std::string& need_string(Context& context, const Value& value, std::string_view who);

// `text % arguments`.
std::string format_percent(Context& context, const std::string& text, const Value& arguments);

}  // namespace kvern::text::jinja
