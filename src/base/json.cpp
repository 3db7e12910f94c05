#include "base/json.h"

#include <fmt/format.h>

#include <vector>

#include "base/json_events.h"

namespace kvern {
namespace {

// A Json object searches all its keys for each that is added: these bound what that can cost.
constexpr size_t kMaxKeys = 4096;
constexpr size_t kMaxKeysInAll = 1 << 18;

// Counts while a text is parsed.
class Limits {
 public:
  Limits(std::string_view what, Code code, int max_depth)
      : what_(what), code_(code), max_depth_(max_depth) {}

  void meet(int depth, Json::parse_event_t event) {
    if (depth > max_depth_) fail(fmt::format("nested deeper than {}", max_depth_));
    using Event = Json::parse_event_t;
    if (event == Event::object_start) keys_.push_back(0);
    if (event == Event::object_end) keys_.pop_back();
    if (event != Event::key) return;
    if (++keys_.back() > kMaxKeys)
      fail(fmt::format("with an object of more than {} keys", kMaxKeys));
    if (++keys_in_all_ > kMaxKeysInAll) fail(fmt::format("of more than {} keys", kMaxKeysInAll));
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(code_, fmt::format("{}: JSON {}", what_, problem));
  }

  std::string_view what_;
  Code code_;
  int max_depth_;
  std::vector<size_t> keys_;  // of the open objects
  size_t keys_in_all_ = 0;
};

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
  Limits limits(what, code, max_depth);
  try {
    return Json::parse(text, [&](int depth, Json::parse_event_t event, Json&) {
      limits.meet(depth, event);
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
