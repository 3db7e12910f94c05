#include "text/jinja_format_spec.h"

#include <fmt/format.h>

#include <cmath>

#include "text/jinja_builtin.h"
#include "text/jinja_print.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

constexpr int64_t kMaxPrecision = 400;

// Groups the digits in front of a '.' or an exponent.
std::string grouped(const std::string& digits, char separator, size_t group) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

std::string sign_of(const FormatSpec& spec, bool negative) {
  if (!negative && spec.sign == '-') return {};
  return std::string(1, negative ? '-' : spec.sign);
}

// Sign, prefix and digits in the spec's width; '=' puts the fill between them.
std::string number_field(Context& context, const FormatSpec& spec, const std::string& front,
                         std::string digits) {
  if (spec.align != '=') return padded(context, spec, front + digits, '>');
  FormatSpec inner = spec;
  inner.align = '>';
  inner.width = spec.width - static_cast<int64_t>(front.size());
  return front + padded(context, inner, std::move(digits), '>');
}

std::string whole_number(Context& context, const FormatSpec& spec, int64_t value) {
  const auto size = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits;
  std::string_view prefix;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", size);
      prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", size);
      prefix = "0X";
      break;
    case 'o':
      digits = fmt::format("{:o}", size);
      prefix = "0o";
      break;
    case 'b':
      digits = fmt::format("{:b}", size);
      prefix = "0b";
      break;
    default:
      digits = fmt::format("{}", size);
  }
  if (spec.grouping != 0) digits = grouped(digits, spec.grouping, prefix.empty() ? 3 : 4);
  std::string front = sign_of(spec, value < 0);
  if (spec.alternate) front += prefix;
  return number_field(context, spec, front, std::move(digits));
}

std::string real_digits(const FormatSpec& spec, double size) {
  const auto digits = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  switch (spec.type) {
    case 'e':
      return spec.alternate ? fmt::format("{:#.{}e}", size, digits)
                            : fmt::format("{:.{}e}", size, digits);
    case 'E':
      return fmt::format("{:.{}E}", size, digits);
    case 'f':
    case 'F':
      return spec.alternate ? fmt::format("{:#.{}f}", size, digits)
                            : fmt::format("{:.{}f}", size, digits);
    case 'G':
      return fmt::format("{:.{}G}", size, std::max(digits, 1));
    case '%':
      return fmt::format("{:.{}f}%", size * 100, digits);
    case 0:
      if (spec.precision < 0) return real_to_string(size);
      break;
    default:
      break;
  }
  std::string text = spec.alternate ? fmt::format("{:#.{}g}", size, std::max(digits, 1))
                                    : fmt::format("{:.{}g}", size, std::max(digits, 1));
  // Without a type, a float never looks like an integer.
  if (spec.type == 0 && text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string real_number(Context& context, const FormatSpec& spec, double value) {
  const double size = std::abs(value);
  std::string digits;
  if (!std::isfinite(size)) {
    digits = std::isnan(size) ? "nan" : "inf";
  } else {
    digits = real_digits(spec, size);
    if (spec.grouping != 0) digits = grouped(digits, spec.grouping, 3);
  }
  return number_field(context, spec, sign_of(spec, std::signbit(value)), std::move(digits));
}

}  // namespace

int64_t format_number(Context& context, std::string_view text, size_t& at, int64_t absent) {
  int64_t value = absent;
  const size_t begin = at;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = (at == begin ? 0 : value * 10) + (text[at] - '0');
    if (at - begin >= 4) context.unsupported("formatting to more than 9999 characters");
  }
  return value;
}

FormatSpec parse_format_spec(Context& context, std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const auto take = [&](std::string_view any) -> char {
    if (at == text.size() || any.find(text[at]) == any.npos) return 0;
    return text[at++];
  };
  constexpr std::string_view kAligns = "<>^=";
  const size_t first = text.empty() ? 0 : char_at(text, 0).length_bytes;
  if (first > 0 && first < text.size() && kAligns.find(text[first]) != kAligns.npos) {
    spec.fill = text.substr(0, first);
    at = first;
  }
  spec.align = take(kAligns);
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  spec.width = format_number(context, text, at, 0);
  spec.grouping = take(",_");
  if (take(".") != 0) {
    spec.precision = format_number(context, text, at, -1);
    if (spec.precision < 0) context.fail("a format lacks the digits behind its '.'");
  }
  spec.type = take("sdxXobcneEfFgG%");
  if (at != text.size()) {
    context.fail(fmt::format("'{}' is no format", text.substr(0, 64)));
  }
  return spec;
}

std::string padded(Context& context, const FormatSpec& spec, std::string text, char align) {
  int64_t length = 0;
  for (size_t at = 0; at < text.size(); at += char_at(text, at).length_bytes) ++length;
  context.step(text.size() / 16);
  const int64_t missing = spec.width - length;
  if (missing <= 0) return text;
  const char side = spec.align != 0 ? spec.align : align;
  const int64_t left = side == '<' ? 0 : side == '^' ? missing / 2 : missing;
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += spec.fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += spec.fill;
  return out;
}

std::string format_value(Context& context, const Value& value, const FormatSpec& spec) {
  constexpr std::string_view kReals = "eEfFgG%";
  if (spec.precision > kMaxPrecision) context.unsupported("formatting to so many digits");
  const bool real_type = spec.type != 0 && kReals.find(spec.type) != kReals.npos;
  if (value.real() || (value.number() && real_type)) {
    if (spec.type != 0 && !real_type) context.fail("a float cannot have this format");
    return real_number(context, spec, value.as_real());
  }
  if (value.whole() && spec.type != 's') {
    if (spec.type == 'c' || spec.type == 'n') context.unsupported("the format 'c' or 'n'");
    return whole_number(context, spec, value.as_integer());
  }
  if ((spec.type != 0 && spec.type != 's') || spec.align == '=') {
    context.fail(fmt::format("{} cannot have this format", value.description()));
  }
  std::string text = to_string(context, value);
  if (spec.precision >= 0) {
    const Value cut = slice(context, Value::text(context, std::move(text)),
                            {Value(None{}), Value(spec.precision), Value(None{})});
    text = *cut.string();
  }
  return padded(context, spec, std::move(text), '<');
}

}  // namespace kvern::text::jinja
