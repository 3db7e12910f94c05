#include "text/unicode_forms.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "kvern/error.h"
#include "text/unicode.h"

namespace kvern::text {
namespace {

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

void append_form(std::string_view valid, NormalForm form, std::string& out) {
  uint8_t* result = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const uint8_t*>(valid.data()),
                   static_cast<utf8proc_ssize_t>(valid.size()), &result, options_of(form));
  const std::unique_ptr<uint8_t, decltype(&std::free)> owner(result, std::free);
  if (size < 0) {
    throw InternalError(std::string("unicode: ") + utf8proc_errmsg(size));
  }
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

// No character below these is changed by the form, or composes with what stands before it.
uint32_t first_changed(NormalForm form) {
  return form == NormalForm::kNfc ? 0x300 : form == NormalForm::kNfd ? 0xC0 : 0xA0;
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  const uint32_t first = first_changed(form);
  std::string out;
  out.reserve(text.size());
  size_t plain = 0;  // where the stretch that stays began
  size_t last = 0;   // its last character, which the next one may compose with
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (!c.valid || c.value < first) {
      last = at;
      at += c.length_bytes;
      if (!c.valid) last = at;
      continue;
    }
    out += text.substr(plain, last - plain);
    size_t end = at;
    while (end < text.size()) {
      const CodePoint next = code_point_at(text, end);
      if (!next.valid || next.value < first) break;
      end += next.length_bytes;
    }
    append_form(text.substr(last, end - last), form, out);
    plain = last = at = end;
  }
  return out.append(text.substr(plain));
}

std::string fully_lowered(std::string_view text) {
  // The one character whose lower case is two.
  constexpr std::string_view kDottedI = "\u0130";
  constexpr std::string_view kLoweredDottedI = "i\u0307";
  std::string out;
  size_t at = 0;
  for (size_t next = 0; (next = text.find(kDottedI, at)) != std::string_view::npos;
       at = next + kDottedI.size()) {
    out.append(to_lower(text.substr(at, next - at))).append(kLoweredDottedI);
  }
  return out.append(to_lower(text.substr(at)));
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  for (size_t next = 0; !from.empty() && (next = text.find(from, at)) != std::string_view::npos;
       at = next + from.size()) {
    out.append(text.substr(at, next - at)).append(to);
  }
  return out.append(text.substr(at));
}

}  // namespace kvern::text
