// Filters that make or change numbers.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja_builtin.h"
#include "text/jinja_space.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

// A number as Python's int() and float() read it: spaces around, digits with '_' between them.
std::optional<std::string> plain_number(Context& context, const std::string& text) {
  context.step(1 + text.size() / 8);  // digits are dear
  std::string_view trimmed = without_trailing_space(without_leading_space(text));
  if (trimmed.starts_with('+')) trimmed.remove_prefix(1);
  if (trimmed.empty() || trimmed.front() == '_' || trimmed.back() == '_') return std::nullopt;
  std::string out;
  for (size_t i = 0; i < trimmed.size(); ++i) {
    if (trimmed[i] != '_') {
      out.push_back(trimmed[i]);
      continue;
    }
    const auto digit = [&](char c) { return c >= '0' && c <= '9'; };
    if (!digit(trimmed[i - 1]) || !digit(trimmed[i + 1])) return std::nullopt;
  }
  if (out.starts_with("+") || out.empty()) return std::nullopt;
  return out;
}

std::optional<double> parse_real(Context& context, const std::string& text) {
  const std::optional<std::string> plain = plain_number(context, text);
  if (!plain) return std::nullopt;
  double value = 0;
  const char* end = plain->data() + plain->size();
  const auto [at, error] = std::from_chars(plain->data(), end, value);
  if (at != end || plain->find('(') != std::string::npos) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::nullopt;
  return value;
}

Value to_whole(double real, const Value& otherwise) {
  return std::abs(real) < 9.2e18 ? Value(static_cast<int64_t>(real)) : otherwise;  // NaN too
}

Value as_integer(Context& context, const Value& input, Given given) {
  const Value otherwise = given.given(0) ? given[0] : Value(int64_t{0});
  if (input.undefined())
    context.fail(fmt::format("int needs a value, not {}", input.description()));
  if (input.whole()) return Value(input.as_integer());
  if (input.real()) return to_whole(*input.real(), otherwise);
  if (!input.string()) return otherwise;
  const int64_t base = given.integer_or(context, 1, 10);
  if (base != 10) context.unsupported("int with a base other than 10");
  const std::optional<std::string> plain = plain_number(context, *input.string());
  if (!plain) return otherwise;
  int64_t value = 0;
  const char* end = plain->data() + plain->size();
  const auto [at, error] = std::from_chars(plain->data(), end, value);
  if (at == end && error == std::errc{}) return Value(value);
  if (at == end) context.fail("the number that int reads is too large");
  const std::optional<double> real = parse_real(context, *input.string());
  return real ? to_whole(*real, otherwise) : otherwise;
}

Value as_real(Context& context, const Value& input, Given given) {
  if (input.undefined()) {
    context.fail(fmt::format("float needs a value, not {}", input.description()));
  }
  if (input.number()) return Value(input.as_real());
  if (input.string()) {
    if (const std::optional<double> real = parse_real(context, *input.string())) {
      return Value(*real);
    }
  }
  return given.given(0) ? given[0] : Value(0.0);
}

Value absolute(Context& context, const Value& input, Given) {
  if (!input.number()) context.fail(fmt::format("abs needs a number, not {}", input.description()));
  if (input.real()) return Value(std::abs(*input.real()));
  const int64_t value = input.as_integer();
  if (value == INT64_MIN) context.fail("the result of abs is too large");
  return Value(value < 0 ? -value : value);
}

Value round(Context& context, const Value& input, Given given) {
  if (!input.number()) {
    context.fail(fmt::format("round needs a number, not {}", input.description()));
  }
  const int64_t digits = given.integer_or(context, 0, 0);
  if (digits < 0 || digits > 15) context.unsupported("round to fewer than 0 or over 15 digits");
  const std::string method = given.string_or(context, 1, "common");
  if (method == "common") {
    if (input.whole()) return Value(input.as_integer());
    if (!std::isfinite(*input.real())) return input;
    // The exact decimals, halves to even: Python's round().
    const std::string text = fmt::format("{:.{}f}", *input.real(), digits);
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return Value(value);
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil") return Value(std::ceil(input.as_real() * scale) / scale);
  if (method == "floor") return Value(std::floor(input.as_real() * scale) / scale);
  context.fail("round goes by 'common', 'ceil' or 'floor'");
}

constexpr Builtin kFilters[] = {
    {"int", "default base", as_integer},
    {"float", "default", as_real},
    {"abs", "", absolute},
    {"round", "precision method", round},
};

}  // namespace

std::span<const Builtin> number_filters() {
  return kFilters;
}

}  // namespace kvern::text::jinja
