#include "base/json.h"

#include <fmt/format.h>

#include "base/json_events.h"

namespace kvern {
namespace {

// nlohmann's SAX interface, passed on.
class EventSource {
 public:
  EventSource(JsonEvents& events, std::string_view what, Code code)
      : events_(events), what_(what), code_(code) {}

  bool null() { return events_.null(), true; }
  bool boolean(bool value) { return events_.boolean(value), true; }
  bool number_integer(int64_t value) { return events_.integer(value), true; }
  bool number_unsigned(uint64_t value) {
    value > INT64_MAX ? events_.unsigned_integer(value)
                      : events_.integer(static_cast<int64_t>(value));
    return true;
  }
  bool number_float(double value, const std::string&) { return events_.real(value), true; }
  bool string(std::string& value) { return events_.string(std::move(value)), true; }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return events_.begin_object(), true; }
  bool key(std::string& name) { return events_.key(std::move(name)), true; }
  bool end_object() { return events_.end_object(), true; }
  bool start_array(size_t) { return events_.begin_array(), true; }
  bool end_array() { return events_.end_array(), true; }
  bool parse_error(size_t byte, const std::string&, const Json::exception&) {
    throw Error(code_, fmt::format("{}: not valid JSON at byte {}", what_, byte));
  }

 private:
  JsonEvents& events_;
  std::string_view what_;
  Code code_;
};

}  // namespace

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

void parse_json_events(std::string_view text, std::string_view what, Code code,
                       JsonEvents& events) {
  EventSource source(events, what, code);
  Json::sax_parse(text, &source);
}

}  // namespace kvern
