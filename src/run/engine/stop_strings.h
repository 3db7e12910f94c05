// Finds stop strings in text that arrives in pieces; what may become one is held back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvern::engine {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that can go out now. Once hit() it ends before the stop string.
  std::string push(std::string_view piece);
  bool hit() const { return hit_; }
  // What was held back and is no stop string after all.
  std::string finish();

 private:
  size_t may_begin_at() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool hit_ = false;
};

}  // namespace kvern::engine
