#include "base/json.h"

#include <fmt/format.h>

namespace kvern {

Json parse_json(std::string_view text, std::string_view what, Code code, int max_depth) {
  try {
    return Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
      if (depth > max_depth) {
        throw Error(code, fmt::format("{}: JSON nested deeper than {}", what, max_depth));
      }
      return true;
    });
  } catch (const Json::parse_error& error) {
    throw Error(code, fmt::format("{}: not valid JSON at byte {}", what, error.byte));
  } catch (const Json::exception& error) {
    throw Error(code, fmt::format("{}: not valid JSON", what));
  }
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvern
