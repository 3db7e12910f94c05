// Patterns of tokenizer.json are Oniguruma's, in its Ruby syntax; we search with PCRE2. Where one
// text means two things, it is translated; what cannot be is refused, never taken for the other.
#pragma once

#include <string>
#include <string_view>

namespace kvern::text {

// The same pattern in PCRE2's syntax, for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE. Throws
// Error(kUnsupported) naming the construct that has no counterpart.
std::string pcre2_of_oniguruma(std::string_view pattern);

}  // namespace kvern::text
