// operator new of a test binary that links failing_allocator.cpp: fails on demand.
#pragma once

#include <atomic>
#include <cstddef>

namespace kvern::testing {

// Allocations of this thread until one fails, and every later one with it; -1: none does.
extern thread_local int allocations_left;

inline constexpr size_t kNoLimit = ~size_t{0};
extern std::atomic<size_t> allocation_limit_bytes;  // of all threads; larger blocks fail

// Sets the limit for its own life.
struct AllocationLimit {
  explicit AllocationLimit(size_t bytes) { allocation_limit_bytes = bytes; }
  ~AllocationLimit() { allocation_limit_bytes = kNoLimit; }
};

}  // namespace kvern::testing
