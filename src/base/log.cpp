#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace kvern::log {
namespace {

// Plain writes instead of spdlog: five levels to standard error need no sink, pattern or registry,
// and spdlog costs this file 4 s of compile time (docs/decisions/0001).
constexpr const char* kNames[] = {"debug", "info", "warning", "error"};

Level initial_level() {
  const char* value = std::getenv("KVERN_LOG");
  if (value == nullptr) return Level::kWarn;
  if (std::strcmp(value, "debug") == 0) return Level::kDebug;
  if (std::strcmp(value, "info") == 0) return Level::kInfo;
  if (std::strcmp(value, "error") == 0) return Level::kError;
  if (std::strcmp(value, "off") == 0) return Level::kOff;
  return Level::kWarn;
}

std::atomic<Level>& current() {
  static std::atomic<Level> level{initial_level()};
  return level;
}

}  // namespace

void set_level(Level level) {
  current().store(level, std::memory_order_relaxed);
}

Level level() {
  return current().load(std::memory_order_relaxed);
}

void write(Level level, std::string_view message) {
  if (level < log::level() || level >= Level::kOff) return;
  const std::string line = fmt::format("kvern: {}: {}\n", kNames[static_cast<int>(level)], message);
  // One write per line, so that lines of several threads do not mix; a closed stderr is not an
  // error.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace kvern::log
