// How much memory this process may still take: what bounds a KV capacity that nobody chose.
#pragma once

#include <cstdint>
#include <string>

namespace kvern {

// Where the system says so; tests give folders of their own.
struct MemoryFiles {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

int64_t physical_memory_bytes();
// What could be had if others gave up theirs: the least of the machine's memory, what is left of
// the control groups' limits and of RLIMIT_AS. The bound of what somebody chose. At least 0.
int64_t grantable_memory_bytes(const MemoryFiles& files = {});
// The least of: memory that is free or can be reclaimed, what is left of the control groups' limits
// (v1 and v2, parents included), what is left of RLIMIT_AS. At least 0; what cannot be read does
// not count.
int64_t free_memory_bytes(const MemoryFiles& files = {});

}  // namespace kvern
