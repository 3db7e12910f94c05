// Unicode's normal forms and full lower case, over bytes that may hold more than UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::text {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Bytes that are not UTF-8 stay, and nothing is composed across them.
std::string normalized(std::string_view text, NormalForm form);

// Character by character, without the rules that look at neighbours (final sigma).
std::string fully_lowered(std::string_view text);

// Every `from`, left to right, replaced; an empty `from` is found nowhere.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace kvern::text
