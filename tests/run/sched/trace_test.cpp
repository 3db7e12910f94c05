// Every tests/sched/*.trace plays to itself. KVERN_UPDATE_TRACES=1 writes what this build gives
// into the files, to be read before it is committed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "tests/run/sched/trace.h"

namespace kvern::sched {
namespace {

std::vector<std::filesystem::path> traces() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(KVERN_TEST_DATA "/sched")) {
    if (entry.path().extension() == ".trace") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class TraceTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(TraceTest, PlaysToItself) {
  const std::string script = read_text_file(GetParam().string(), 1 << 20);
  const std::string played = play_trace(script);
  if (std::getenv("KVERN_UPDATE_TRACES") != nullptr) std::ofstream(GetParam()) << played;
  EXPECT_EQ(played, script);
}

INSTANTIATE_TEST_SUITE_P(Files, TraceTest, ::testing::ValuesIn(traces()),
                         [](const auto& info) { return info.param.stem().string(); });

TEST(Traces, AreAllThere) {
  EXPECT_GE(traces().size(), 29u);
}

}  // namespace
}  // namespace kvern::sched
