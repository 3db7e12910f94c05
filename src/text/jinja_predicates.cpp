// `x is …`: the tests of the template language.
#include "text/jinja_builtin.h"
#include "text/jinja_search.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

bool integer(const Value& value) {
  return value.integer() != nullptr;
}

Value parity(Context& context, const Value& input, int64_t wanted) {
  if (!input.number() || input.real()) context.fail("'even' and 'odd' need an integer");
  return Value((input.as_integer() & 1) == wanted);
}

Value divisible_by(Context& context, const Value& input, Given given) {
  const int64_t divisor = given.integer_or(context, 0, 0);
  if (divisor == 0 || !input.number() || input.real()) {
    context.fail("'divisibleby' needs integers, and no 0");
  }
  return Value(divisor == -1 || input.as_integer() % divisor == 0);
}

Value contained(Context& context, const Value& input, Given given) {
  if (given[0].string() && input.string()) {
    return Value(find_text(context, *given[0].string(), *input.string(), 0) != std::string::npos);
  }
  for (const Value& item : items_of(context, given[0])) {
    if (equal(context, item, input)) return Value(true);
  }
  return Value(false);
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
    {"integer", "", [](Context&, const Value& v, Given) { return Value(integer(v)); }},
    {"float", "", [](Context&, const Value& v, Given) { return Value(v.real() != nullptr); }},
    {"number", "", [](Context&, const Value& v, Given) { return Value(v.number()); }},
    {"string", "", [](Context&, const Value& v, Given) { return Value(v.string() != nullptr); }},
    {"mapping", "", [](Context&, const Value& v, Given) { return Value(v.dict() != nullptr); }},
    {"sequence", "", [](Context&, const Value& v, Given) {
       return Value(v.string() || v.list() || v.dict()); }},
    {"iterable", "", [](Context&, const Value& v, Given) {
       return Value(v.string() || v.list() || v.dict() || v.undefined()); }},
    {"callable", "", [](Context&, const Value& v, Given) {
       return Value(v.function() || v.macro() || v.method()); }},
    {"even", "", [](Context& c, const Value& v, Given) { return parity(c, v, 0); }},
    {"odd", "", [](Context& c, const Value& v, Given) { return parity(c, v, 1); }},
    {"divisibleby", "num", divisible_by},
    {"in", "seq", contained},
    {"lower", "", [](Context& c, const Value& v, Given) {
       const std::string text = to_string(c, v);
       return Value(text == to_lower(text) && text != to_upper(text)); }},
    {"upper", "", [](Context& c, const Value& v, Given) {
       const std::string text = to_string(c, v);
       return Value(text == to_upper(text) && text != to_lower(text)); }},
    {"eq", "other", kEqual}, {"equalto", "other", kEqual}, {"sameas", "other", kEqual},
    {"ne", "other", kNotEqual},
    {"lt", "other", kLess}, {"lessthan", "other", kLess},
    {"gt", "other", kGreater}, {"greaterthan", "other", kGreater},
    {"le", "other", kAtMost}, {"ge", "other", kAtLeast},
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
