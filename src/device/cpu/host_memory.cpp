#include <sys/mman.h>

#include <cstdlib>

#include <fmt/format.h>

#include "base/checked.h"
#include "device/cpu/cpu_device.h"
#include "kvern/error.h"

namespace kvern::device {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kLineBytes = 64;

[[noreturn]] void out_of_memory(size_t size_bytes) {
  throw Error(Code::kOutOfMemory,
              fmt::format("cpu: no memory for a buffer of {} bytes; free some, or ask for fewer "
                          "pages or a smaller context length",
                          size_bytes));
}

// Anonymous pages come zeroed and untouched: the thread that writes one first decides its node.
Buffer map_huge(size_t size_bytes) {
  const auto padded = checked_add(size_bytes, 2 * kHugePageBytes);
  if (!padded) out_of_memory(size_bytes);
  const size_t total = (*padded - 1) / kHugePageBytes * kHugePageBytes;
  void* base = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) out_of_memory(size_bytes);
  // Keeps one huge-page-aligned run and gives the ends back.
  const auto start = reinterpret_cast<uintptr_t>(base);
  const uintptr_t aligned = (start + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const size_t kept = (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (aligned > start) munmap(base, aligned - start);
  const uintptr_t end = start + total;
  if (end > aligned + kept) munmap(reinterpret_cast<void*>(aligned + kept), end - aligned - kept);
  madvise(reinterpret_cast<void*>(aligned), kept, MADV_HUGEPAGE);
  return {reinterpret_cast<void*>(aligned), size_bytes, [](void* data, size_t size) {
            munmap(data, (size + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
          }};
}

}  // namespace

Buffer allocate_host(size_t size_bytes) {
  if (size_bytes >= kHugePageBytes) return map_huge(size_bytes);
  const size_t rounded = (size_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  void* data = std::aligned_alloc(kLineBytes, rounded == 0 ? kLineBytes : rounded);
  if (data == nullptr) out_of_memory(size_bytes);
  return {data, size_bytes, [](void* p, size_t) { std::free(p); }};
}

}  // namespace kvern::device
