#include "run/engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace kvern::engine {

std::string StopStrings::push(std::string_view piece) {
  if (hit_) return {};
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  hit_ = first != std::string::npos;
  const size_t end = hit_ ? first : may_begin_at();
  std::string out = held_.substr(0, end);
  held_.erase(0, end);
  return out;
}

// Where the longest end of held_ starts that begins a stop string.
size_t StopStrings::may_begin_at() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size(), held_.size()); n > longest; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return held_.size() - longest;
}

std::string StopStrings::finish() {
  return hit_ ? std::string() : std::exchange(held_, {});
}

}  // namespace kvern::engine
