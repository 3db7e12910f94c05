#include "base/check.h"

#include <cstring>

namespace kvern {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const char* slash = std::strrchr(file, '/');
  throw InternalError(fmt::format("internal error at {}:{}: {} does not hold{}{}",
                                  slash != nullptr ? slash + 1 : file, line, condition,
                                  message.empty() ? "" : ": ", message));
}

}  // namespace kvern
