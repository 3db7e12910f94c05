#include "base/quoted.h"

namespace kvern {

std::string quote(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::optional<std::string> read_quoted(std::string_view text, size_t& at) {
  std::string out;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size()) {
      ++at;
      out += text[at] == 'n' ? '\n' : text[at];
    } else {
      out += text[at];
    }
  }
  if (at == text.size()) return std::nullopt;
  ++at;
  return out;
}

}  // namespace kvern
