#include "base/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace kvern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = 1 << 20;

// A /proc and a /sys/fs/cgroup of our own.
class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest()
      : root_(fs::temp_directory_path() / ("kvern_memory" + std::to_string(::getpid()))) {
    put("proc/meminfo",
        "MemTotal: 999999 kB\nMemFree: 1 kB\nMemAvailable:  409600 kB\nCached: 7\n");
  }
  ~HostMemoryTest() override { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  int64_t free_bytes() const {
    return free_memory_bytes({(root_ / "proc").string(), (root_ / "cgroup").string()});
  }

  fs::path root_;
};

TEST_F(HostMemoryTest, IsWhatIsAvailableAndNotTheWhole) {
  EXPECT_EQ(free_bytes(), 400 * kMiB);
}

TEST_F(HostMemoryTest, IsBelowTheLimitsOfEveryControlGroup) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("cgroup/a/b/memory.max", "max\n");
  put("cgroup/a/b/memory.current", "5\n");
  EXPECT_EQ(free_bytes(), 400 * kMiB);
  put("cgroup/a/memory.max", std::to_string(300 * kMiB));
  put("cgroup/a/memory.current", std::to_string(100 * kMiB));
  EXPECT_EQ(free_bytes(), 200 * kMiB);
  // The page cache can be had back.
  put("cgroup/a/memory.stat", "anon 1\ninactive_file " + std::to_string(40 * kMiB) + "\nx 3\n");
  EXPECT_EQ(free_bytes(), 240 * kMiB);
  put("cgroup/a/memory.current", std::to_string(900 * kMiB));
  EXPECT_EQ(free_bytes(), 0);
}

TEST_F(HostMemoryTest, WhatIsGrantedKnowsLimitsAndNotWhatOthersUse) {
  put("proc/meminfo", "MemAvailable:  1 kB\n");
  const MemoryFiles files{(root_ / "proc").string(), (root_ / "cgroup").string()};
  EXPECT_GT(grantable_memory_bytes(files), 64 * kMiB);
  put("proc/self/cgroup", "0::/a\n");
  put("cgroup/a/memory.max", std::to_string(30 * kMiB));
  put("cgroup/a/memory.current", std::to_string(10 * kMiB));
  EXPECT_EQ(grantable_memory_bytes(files), 20 * kMiB);
}

TEST_F(HostMemoryTest, ReadsTheRootOfAContainerWhoseOwnPathIsTheHosts) {
  put("proc/self/cgroup", "3:cpuset:/\n4:cpu,memory:/docker/1234\n0::/\n");
  put("cgroup/memory/memory.limit_in_bytes", std::to_string(64 * kMiB));
  put("cgroup/memory/memory.usage_in_bytes", std::to_string(24 * kMiB));
  EXPECT_EQ(free_bytes(), 40 * kMiB);
}

TEST_F(HostMemoryTest, WithoutFilesItIsPhysicalMemory) {
  fs::remove_all(root_);
  put("proc/other", "");
  EXPECT_EQ(free_bytes(), physical_memory_bytes());
  EXPECT_GT(free_memory_bytes(), 0);
  EXPECT_LE(free_memory_bytes(), physical_memory_bytes());
}

}  // namespace
}  // namespace kvern
