// operator new of the test binary that links this, refusing large blocks on demand.
#pragma once

#include <atomic>
#include <cstddef>

namespace kvern::testing {

inline constexpr size_t kNoLimit = ~size_t{0};
extern std::atomic<size_t> allocation_limit_bytes;  // of all threads; larger blocks fail

// Sets the limit for its own life.
struct AllocationLimit {
  explicit AllocationLimit(size_t bytes) { allocation_limit_bytes = bytes; }
  ~AllocationLimit() { allocation_limit_bytes = kNoLimit; }
};

}  // namespace kvern::testing
