// Values as text: what {{ }} prints, and JSON.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace kvern::text::jinja {

// The shortest decimal that reads back as the same double, as Python writes it.
std::string real_to_string(double value);

// json.dumps()'s options.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool broken = false;  // into lines, each level behind one more `indent`
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Context& context, const Value& value, const JsonStyle& style);

}  // namespace kvern::text::jinja
