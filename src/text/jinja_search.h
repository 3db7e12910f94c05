// Searching in strings, paid for by the template. memmem is linear: std::string::find is not, and a
// template must not be able to make it quadratic.
#pragma once

#include <cstring>
#include <string>

#include "text/jinja_context.h"

namespace kvern::text::jinja {

inline size_t find_text(Context& context, const std::string& text, const std::string& wanted,
                        size_t from) {
  if (from > text.size()) return std::string::npos;
  const char* begin = text.data() + from;
  const void* found = memmem(begin, text.size() - from, wanted.data(), wanted.size());
  const size_t at = found ? from + (static_cast<const char*>(found) - begin) : std::string::npos;
  context.step(1 + ((found ? at : text.size()) - from) / 64);
  return at;
}

}  // namespace kvern::text::jinja
