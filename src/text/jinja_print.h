// Values as text: what {{ }} prints, and JSON.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace kvern::text::jinja {

// The shortest decimal that reads back as the same double, as Python writes it.
std::string real_to_string(double value);

}  // namespace kvern::text::jinja
