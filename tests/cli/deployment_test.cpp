// What the binary needs from a machine, and what it leaves there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/cli/process.h"

namespace kvern::cli_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = KVERN_TEST_DATA "/golden/tiny_llama.gguf";

std::string copy_of_model(const std::string& name) {
  const std::string path = temp_path(name);
  write_file(path, read_file(kModel));
  return path;
}

std::vector<std::string> run_args(const std::string& model) {
  return {"run",   model, "--prompt-ids", "5,6,7,8,9,10,11,12", "-n", "24", "--ignore-eos",
          "--ids", "-q"};
}

std::vector<fs::path> cached_plans(const std::string& folder) {
  std::vector<fs::path> plans;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".plan") plans.push_back(entry.path());
  }
  return plans;
}

class CliCache : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = temp_path(::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    ::setenv("KVERN_CACHE", folder_.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("KVERN_CACHE"); }
  std::string folder_;
};

TEST(CliDeployment, NeedsTheCLibraryAlone) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers bring libraries of their own";
#endif
  const Outcome outcome = run(Command{.args = {KVERN_CLI_PATH}, .program = "/usr/bin/ldd"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::set<std::string> allowed = {"linux-vdso.so", "libc.so",
                                         "libm.so",       "libstdc++.so",
                                         "libgcc_s.so",   "/lib64/ld-linux-x86-64.so"};
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string library;
    words >> library;
    EXPECT_TRUE(allowed.count(library.substr(0, library.rfind(".so") + 3)) == 1) << line;
  }
}

TEST_F(CliCache, AModelIsBuiltOnceAndItsPlanReused) {
  const std::string model = copy_of_model("reused.gguf");
  const Outcome first = run(run_args(model));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(cached_plans(folder_).size(), 1u);
  const auto built = fs::last_write_time(cached_plans(folder_)[0]);
  EXPECT_EQ(run(run_args(model)).out, first.out);
  ASSERT_EQ(cached_plans(folder_).size(), 1u);
  EXPECT_EQ(fs::last_write_time(cached_plans(folder_)[0]), built);
}

// The tensors stay the same; what the metadata says of them does not.
TEST_F(CliCache, MendedMetadataIsAnotherModel) {
  const std::string model = copy_of_model("mended.gguf");
  const Outcome before = run(run_args(model));
  ASSERT_EQ(before.exit_code, 0) << before.err;
  std::string bytes = read_file(kModel);
  const std::string key = "llama.rope.freq_base";
  const size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  const float base = 50.0f;  // behind the key: u32 type, f32 value
  std::memcpy(bytes.data() + at + key.size() + 4, &base, sizeof(base));
  write_file(model, bytes);
  const Outcome after = run(run_args(model));
  ASSERT_EQ(after.exit_code, 0) << after.err;
  EXPECT_EQ(cached_plans(folder_).size(), 2u);
  EXPECT_NE(after.out, before.out);
}

// A file that is rewritten in place leaves its folder's own time as it was.
TEST_F(CliCache, AFolderWhoseConfigChangesIsAnotherModel) {
  namespace fs = std::filesystem;
  const fs::path folder = temp_path("folder_model");
  fs::create_directories(folder);
  fs::copy(KVERN_TEST_DATA "/golden/tiny_qwen2", folder, fs::copy_options::recursive);
  const auto logprobs = [&] {
    const Outcome outcome = run({"run", folder.string(), "--prompt-ids", "5,6,7,8,9,10,11,12", "-n",
                                 "8", "--ignore-eos", "--logprobs", "0", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const size_t at = outcome.out.find("\"logprobs\"");
    return outcome.out.substr(at, outcome.out.find("\"prompt_ids\"") - at);
  };
  const std::string before = logprobs();
  EXPECT_EQ(logprobs(), before);
  std::string config = read_file((folder / "config.json").string());
  const size_t at = config.find("\"silu\"");
  ASSERT_NE(at, std::string::npos) << config;
  config.replace(at, 6, "\"gelu\"");
  write_file((folder / "config.json").string(), config);
  EXPECT_NE(logprobs(), before);
}

TEST_F(CliCache, ADamagedPlanIsBuiltAgain) {
  const std::string model = copy_of_model("damaged.gguf");
  const Outcome good = run(run_args(model));
  ASSERT_EQ(good.exit_code, 0) << good.err;
  const std::string plan = cached_plans(folder_).at(0).string();
  std::string bytes = read_file(plan);
  bytes[bytes.size() - 100] ^= 1;  // a weight: only --verify looks
  write_file(plan, bytes);
  std::vector<std::string> verify = run_args(model);
  verify.push_back("--verify");
  EXPECT_EQ(run(verify).out, good.out);
  EXPECT_EQ(run({"verify", plan}).exit_code, 0);
  write_file(plan, bytes.substr(0, 500));
  EXPECT_EQ(run(run_args(model)).out, good.out);
}

TEST(CliBuild, NeverOverwritesItsModelOrADevice) {
  const std::string model = copy_of_model("precious.gguf");
  fs::create_symlink(model, temp_path("alias.gguf"));
  for (const std::string& target : {model, temp_path("alias.gguf"), std::string("/dev/null")}) {
    const Outcome outcome = run({"build", model, "-o", target});
    EXPECT_EQ(outcome.exit_code, 2) << target << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::HasSubstr(target == "/dev/null" ? "/dev/null" : model));
  }
  EXPECT_EQ(read_file(model), read_file(kModel));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace kvern::cli_test
