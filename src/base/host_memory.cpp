#include "base/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

namespace kvern {
namespace {

std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  if (!(in >> value) || value < 0) return std::nullopt;  // "max" is no number
  return value;
}

// The number behind the word `key` at a line's start.
std::optional<int64_t> read_entry(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  std::string word;
  while (in >> word) {
    int64_t value = 0;
    if (word == key && in >> value) return value;
    in.ignore(1 << 16, '\n');
  }
  return std::nullopt;
}

struct CgroupNames {
  const char *limit, *usage, *reclaimable;
};
constexpr CgroupNames kV1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                             "total_inactive_file"};
constexpr CgroupNames kV2 = {"/memory.max", "/memory.current", "inactive_file"};

// What is left of `path` and its parents. Inside a container the path may be the host's: folders
// that are not there are passed over, and the root of the mount is the container's own.
int64_t left_in_cgroups(const std::string& root, std::string path, const CgroupNames& names) {
  int64_t left = INT64_MAX;
  for (;;) {
    if (path == "/") path.clear();
    const std::string folder = root + path;
    const auto limit = read_number(folder + names.limit);
    const auto usage = read_number(folder + names.usage);
    if (limit && usage) {
      const int64_t files = read_entry(folder + "/memory.stat", names.reclaimable).value_or(0);
      left = std::min(left, *limit - std::max<int64_t>(0, *usage - files));
    }
    if (path.empty()) return left;
    path.erase(path.rfind('/'));
  }
}

int64_t left_by_cgroups(const MemoryFiles& files) {
  std::ifstream in(files.proc + "/self/cgroup");
  int64_t left = INT64_MAX;
  for (std::string line; std::getline(in, line);) {  // "4:memory:/path" or "0::/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.size() < second + 2 || line[second + 1] != '/') {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      left = std::min(left, left_in_cgroups(files.cgroup, path, kV2));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      left = std::min(left, left_in_cgroups(files.cgroup + "/memory", path, kV1));
    }
  }
  return left;
}

int64_t left_of_address_space(const MemoryFiles& files) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  const int64_t used_pages = read_number(files.proc + "/self/statm").value_or(0);
  const auto most = static_cast<int64_t>(std::min<uint64_t>(limit.rlim_cur, INT64_MAX));
  return most - used_pages * int64_t{sysconf(_SC_PAGESIZE)};
}

}  // namespace

int64_t physical_memory_bytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
}

int64_t grantable_memory_bytes(const MemoryFiles& files) {
  return std::max<int64_t>(
      0, std::min({physical_memory_bytes(), left_by_cgroups(files), left_of_address_space(files)}));
}

int64_t free_memory_bytes(const MemoryFiles& files) {
  int64_t left = grantable_memory_bytes(files);
  const auto available_kib = read_entry(files.proc + "/meminfo", "MemAvailable:");
  if (available_kib && *available_kib >= 0 && *available_kib < (int64_t{1} << 50)) {
    left = std::min(left, *available_kib * 1024);
  }
  return left;
}

}  // namespace kvern
