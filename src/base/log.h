// Diagnostics for people, on standard error. Results never pass through here.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace kvern::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };

// The level below which lines are dropped; KVERN_LOG=debug|info|warn|error|off sets the first one.
void set_level(Level level);
Level level();

void write(Level level, std::string_view message);

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::kInfo)
    write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::kWarn)
    write(Level::kWarn, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::kError) {
    write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace kvern::log
