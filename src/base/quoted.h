// Strings between double quotes, as the text forms of graphs and attributes write them; quotes,
// backslashes and newlines are escaped with a backslash.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvern {

std::string quote(std::string_view value);

// Reads what follows an opening quote at `at`, which moves behind the closing one. Nothing when
// there is none; `at` is then the end of the text.
std::optional<std::string> read_quoted(std::string_view text, size_t& at);

}  // namespace kvern
