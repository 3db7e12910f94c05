// JSON as a sequence of events, for readers that build something other than a Json tree. Unlike
// base/json.h it brings no heavy header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvern/error.h"

namespace kvern {

// What a text holds, in its order. A handler may throw to stop.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void integer(int64_t value) = 0;
  virtual void unsigned_integer(uint64_t value) = 0;  // above int64_t
  virtual void real(double value) = 0;
  virtual void string(std::string value) = 0;
  virtual void begin_object() = 0;
  virtual void key(std::string name) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
};

// Throws Error(code) naming `what` and the byte where the text went wrong. Bounds no depth: that is
// the handler's to do.
void parse_json_events(std::string_view text, std::string_view what, Code code, JsonEvents& events);

}  // namespace kvern
