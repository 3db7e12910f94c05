// KVERN_CHECK: always on, at module borders. KVERN_DCHECK: debug builds only, inside loops.
// Both are for our own bugs; a caller's mistake is an Error with a code.
#pragma once

#include <fmt/format.h>

#include "kvern/error.h"

namespace kvern {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace kvern

#define KVERN_CHECK(condition, ...)                                                         \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::kvern::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)

#ifdef NDEBUG
#define KVERN_DCHECK(condition, ...) \
  do {                               \
  } while (false)
#else
#define KVERN_DCHECK(condition, ...) KVERN_CHECK(condition, __VA_ARGS__)
#endif
