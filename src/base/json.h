// The one include of nlohmann/json for parsing and printing; headers that only pass JSON on use
// <nlohmann/json_fwd.hpp>. parse_json caps depth and reports the byte where a text went wrong.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kvern/error.h"

namespace kvern {

using Json = nlohmann::ordered_json;

// Throws Error(code) naming `what`; texts nested deeper than `max_depth` are refused, and those
// with more than 4,096 keys in an object or 2^18 in all (base/json_events.h takes any number).
Json parse_json(std::string_view text, std::string_view what, Code code, int max_depth = 64);

// UTF-8 with invalid bytes replaced, so that model output can always be printed.
std::string dump_json(const Json& json, int indent = -1);

}  // namespace kvern
