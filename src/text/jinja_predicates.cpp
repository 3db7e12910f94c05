// `x is …`: the tests of the template language.
#include <fmt/format.h>

#include <cmath>

#include "text/jinja_builtin.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

Value divisible(Context& context, const Value& input, int64_t divisor, bool wanted) {
  if (divisor == 0 || !input.number()) context.fail("a test of division needs numbers, and no 0");
  if (input.real()) {
    return Value((std::fmod(*input.real(), static_cast<double>(divisor)) == 0) == wanted);
  }
  return Value((divisor == -1 || input.as_integer() % divisor == 0) == wanted);
}

Value divisible_by(Context& context, const Value& input, Given given) {
  return divisible(context, input, given.integer_or(context, 0, 0), true);
}

Value odd(Context& context, const Value& input, Given) {
  return divisible(context, input, 2, false);
}

Value same_as(Context& context, const Value& a, Given given) {
  const Value& b = given[0];
  if (a.type_name() != b.type_name()) return Value(false);
  if (a.list()) return Value(a.list() == b.list());
  if (a.dict()) return Value(a.dict() == b.dict());
  return Value(equal(context, a, b));
}

enum class Case { kLower, kUpper };
Value in_case(Context& context, const Value& value, Case wanted) {
  const std::string text = to_string(context, value);
  context.step(text.size() / 4);
  const std::string lower = to_lower(text);
  const std::string upper = to_upper(text);
  return Value(wanted == Case::kLower ? text == lower && text != upper
                                      : text == upper && text != lower);
}

bool iterable(const Value& v) {
  return v.string() || v.list() || v.mapping() || v.undefined() || v.loop();
}

constexpr auto kEqual = [](Context& c, const Value& v, Given a) {
  return Value(equal(c, v, a[0]));
};
constexpr auto kNotEqual = [](Context& c, const Value& v, Given a) {
  return Value(!equal(c, v, a[0]));
};
constexpr auto kLess = [](Context& c, const Value& v, Given a) { return Value(less(c, v, a[0])); };
constexpr auto kGreater = [](Context& c, const Value& v, Given a) {
  return Value(less(c, a[0], v));
};
constexpr auto kAtMost = [](Context& c, const Value& v, Given a) {
  return Value(less(c, v, a[0]) || equal(c, v, a[0]));
};
constexpr auto kAtLeast = [](Context& c, const Value& v, Given a) {
  return Value(less(c, a[0], v) || equal(c, v, a[0]));
};

// clang-format off
constexpr Builtin kTests[] = {
    {"defined", "", [](Context&, const Value& v, Given) { return Value(!v.undefined()); }},
    {"undefined", "", [](Context&, const Value& v, Given) { return Value(v.undefined()); }},
    {"none", "", [](Context&, const Value& v, Given) { return Value(v.none()); }},
    {"boolean", "", [](Context&, const Value& v, Given) { return Value(v.boolean() != nullptr); }},
    {"true", "", [](Context&, const Value& v, Given) { return Value(v.boolean() && *v.boolean()); }},
    {"false", "", [](Context&, const Value& v, Given) { return Value(v.boolean() && !*v.boolean()); }},
    {"integer", "", [](Context&, const Value& v, Given) { return Value(v.integer() != nullptr); }},
    {"float", "", [](Context&, const Value& v, Given) { return Value(v.real() != nullptr); }},
    {"number", "", [](Context&, const Value& v, Given) { return Value(v.number()); }},
    {"string", "", [](Context&, const Value& v, Given) { return Value(v.string() != nullptr); }},
    {"mapping", "", [](Context&, const Value& v, Given) { return Value(v.mapping()); }},
    {"sequence", "", [](Context&, const Value& v, Given) {
       return Value(v.string() || (v.list() && !v.generator()) || v.mapping() || v.undefined()); }},
    {"iterable", "", [](Context&, const Value& v, Given) { return Value(iterable(v)); }},
    {"callable", "", [](Context&, const Value& v, Given) {
       return Value(v.function() || v.macro() || v.method() || v.undefined()); }},
    {"even", "", [](Context& c, const Value& v, Given) { return divisible(c, v, 2, true); }},
    {"odd", "", odd},
    {"divisibleby", "num!", divisible_by},
    {"in", "seq!", [](Context& c, const Value& v, Given a) { return Value(contains(c, a[0], v)); }},
    {"lower", "", [](Context& c, const Value& v, Given) { return in_case(c, v, Case::kLower); }},
    {"upper", "", [](Context& c, const Value& v, Given) { return in_case(c, v, Case::kUpper); }},
    {"escaped", "", [](Context&, const Value&, Given) { return Value(false); }},
    {"filter", "", [](Context&, const Value& v, Given) {
       return Value(v.string() && find_filter(*v.string()) != nullptr); }},
    {"test", "", [](Context&, const Value& v, Given) {
       return Value(v.string() && find_test(*v.string()) != nullptr); }},
    {"sameas", "other!", same_as},
    {"eq", "other!", kEqual}, {"equalto", "other!", kEqual}, {"==", "other!", kEqual},
    {"ne", "other!", kNotEqual}, {"!=", "other!", kNotEqual},
    {"lt", "other!", kLess}, {"lessthan", "other!", kLess}, {"<", "other!", kLess},
    {"gt", "other!", kGreater}, {"greaterthan", "other!", kGreater}, {">", "other!", kGreater},
    {"le", "other!", kAtMost}, {"<=", "other!", kAtMost},
    {"ge", "other!", kAtLeast}, {">=", "other!", kAtLeast},
};
// clang-format on

}  // namespace

const Builtin* find_test(std::string_view name) {
  for (const Builtin& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

}  // namespace kvern::text::jinja
