// JSON texts as values of the template language.
#pragma once

#include <string_view>

#include "text/jinja_value.h"

namespace kvern::text::jinja {

// Keys keep their order; of a key given twice the last value counts, at the place of the first.
// Throws Error(kInvalidRequest) naming `what`.
Value value_from_json(Context& context, std::string_view text, std::string_view what);

}  // namespace kvern::text::jinja
