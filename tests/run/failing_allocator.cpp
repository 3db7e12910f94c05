#include "tests/run/failing_allocator.h"

#include <cstdlib>
#include <new>

namespace kvern::testing {

thread_local int allocations_left = -1;
std::atomic<size_t> allocation_limit_bytes{kNoLimit};

}  // namespace kvern::testing

// Apart from the tests, so that the compiler cannot take malloc and delete for a wrong pair.
void* operator new(size_t size) {
  if (size > kvern::testing::allocation_limit_bytes) throw std::bad_alloc();
  int& left = kvern::testing::allocations_left;
  if (left == 0) throw std::bad_alloc();
  if (left > 0) --left;
  void* data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

// Standard algorithms take temporary buffers with this one and give them to the delete below.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void operator delete(void* data) noexcept {
  std::free(data);
}

void operator delete(void* data, size_t) noexcept {
  std::free(data);
}
