// One field of `'…' % …` and of str.format(): how a value is laid out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace kvern::text::jinja {

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = 0;          // '<', '>', '^', '=' or 0: by type
  char sign = '-';         // '-', '+' or ' '
  bool alternate = false;
  char grouping = 0;       // ',', '_' or 0
  int64_t width = 0;       // in characters
  int64_t precision = -1;  // -1: none given
  char type = 0;
};

// "[[fill]align][sign][#][0][width][grouping][.precision][type]".
FormatSpec parse_format_spec(Context& context, std::string_view text);

// Python's format(value, spec). Fails where type and value do not fit.
std::string format_value(Context& context, const Value& value, const FormatSpec& spec);

// `text` in the spec's width; `align` where the spec names none.
std::string padded(Context& context, const FormatSpec& spec, std::string text, char align);

// Digits from text[at] on, at most four of them: wider fields are refused.
int64_t format_number(Context& context, std::string_view text, size_t& at, int64_t absent);

}  // namespace kvern::text::jinja
