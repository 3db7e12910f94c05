#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "kvern/error.h"

namespace kvern {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    folder_ = fs::temp_directory_path() / ("kvern_file_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "x").string();
  }
  ~FileTest() override { fs::remove_all(folder_); }

  static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  template <class Fn>
  static Code code_of(Fn fn) {
    try {
      fn();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return Code::kInternal;
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(FileTest, CommitPublishesAndLeavesNothingElse) {
  AtomicFile file(path_);
  file.write("hello", 5);
  file.write_at(0, std::as_bytes(std::span("J", 1)));
  file.write("!", 1);
  EXPECT_EQ(file.position(), 6u);
  EXPECT_FALSE(fs::exists(path_));
  file.commit();
  EXPECT_EQ(contents(path_), "Jello!");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(FileTest, WithoutCommitTheOldFileStays) {
  std::ofstream(path_) << "old";
  {
    AtomicFile file(path_);
    file.write("new", 3);
  }
  EXPECT_EQ(contents(path_), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(FileTest, MapsWhatIsThere) {
  std::ofstream(path_) << "mapped";
  const MappedFile file(path_);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), 6), "mapped");
  std::ofstream(folder_ / "empty");
  EXPECT_TRUE(MappedFile((folder_ / "empty").string()).bytes().empty());
}

TEST_F(FileTest, SaysWhyItCannot) {
  EXPECT_EQ(code_of([&] { MappedFile file(path_ + "/no"); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { MappedFile file(folder_.string()); }), Code::kUnsupported);
  EXPECT_EQ(code_of([&] { MappedFile file("/dev/null"); }), Code::kUnsupported);
}

TEST_F(FileTest, TextIsReadUpToItsLimit) {
  std::ofstream(path_) << "12345";
  EXPECT_EQ(read_text_file(path_, 5), "12345");
  EXPECT_THROW(read_text_file(path_, 4), Error);
}

}  // namespace
}  // namespace kvern
