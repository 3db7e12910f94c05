#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "kvern/error.h"

namespace kvern {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest() : folder_(fs::temp_directory_path() / ("kvern_file" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    path_ = (folder_ / "x").string();
  }
  ~FileTest() override { fs::remove_all(folder_); }

  std::string text() const { return read_text_file(path_, 1 << 20); }
  int64_t num_files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  static Code code_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return Code::kInternal;
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(FileTest, CommitShowsTheWholeFileAtOnce) {
  AtomicFile file(path_);
  file.write("hello ", 6);
  file.write("world", 5);
  EXPECT_EQ(file.position(), 11u);
  file.write_at(0, std::as_bytes(std::span("J", 1)));
  EXPECT_FALSE(fs::exists(path_));
  file.commit();
  EXPECT_EQ(text(), "Jello world");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(FileTest, WithoutCommitNothingIsLeftAndTheOldFileStays) {
  {
    AtomicFile file(path_);
    file.write("new", 3);
  }
  EXPECT_EQ(num_files(), 0);
  std::ofstream(path_) << "old";
  {
    AtomicFile file(path_);
    file.write("new", 3);
  }
  EXPECT_EQ(text(), "old");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(FileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(code_of([&] { AtomicFile file(folder_.string()); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { AtomicFile file((folder_ / "no" / "x").string()); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { MappedFile file(path_); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { MappedFile file(folder_.string()); }), Code::kUnsupported);
}

TEST_F(FileTest, MapsTheBytesThatAreThere) {
  std::ofstream(path_) << "abc";
  const MappedFile file(path_);
  ASSERT_EQ(file.bytes().size(), 3u);
  EXPECT_EQ(std::memcmp(file.bytes().data(), "abc", 3), 0);
  EXPECT_EQ(file.path(), path_);
  std::ofstream(folder_ / "empty");
  EXPECT_TRUE(MappedFile((folder_ / "empty").string()).bytes().empty());
}

TEST_F(FileTest, TextFilesAreBounded) {
  std::ofstream(path_) << "abc";
  EXPECT_EQ(read_text_file(path_, 3), "abc");
  EXPECT_EQ(code_of([&] { read_text_file(path_, 2); }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kvern
