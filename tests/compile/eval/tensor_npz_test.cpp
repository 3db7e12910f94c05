// .npz files: what numpy wrote, what we write, and what is damaged.
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "compile/eval/tensor/npz.h"
#include "compile/eval/tensor/zip_file.h"
#include "tests/compile/eval/tensor_op.h"

namespace kvern::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TensorNpz : public testing::Test {
 protected:
  void SetUp() override {
    path_ =
        std::filesystem::temp_directory_path() / ("kvern_npz_" + std::to_string(getpid()) + ".npz");
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void put(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }
  std::string refusal() const {
    try {
      read_npz(path_.string());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
};

TEST_F(TensorNpz, WhatIsWrittenIsReadAgain) {
  const Array scalar = i64({}, {-5});
  const Array empty = f32({0, 3}, {});
  write_npz(path_.string(),
            {{"a/b", scalar}, {"e", empty}, {"x", f32({2}, {1, 2})}, {"t", boolean({1}, {1})}});
  const auto read = read_npz(path_.string());
  ASSERT_EQ(read.size(), 4u);
  EXPECT_THAT(values<int64_t>(read.at("a/b")), ElementsAre(-5));
  EXPECT_EQ(read.at("a/b").shape(), (Shape{}));
  EXPECT_EQ(read.at("e").shape(), (Shape{0, 3}));
  EXPECT_THAT(values<float>(read.at("x")), ElementsAre(1, 2));
  EXPECT_EQ(read.at("t").type(), ElementType::kBool);
}

TEST_F(TensorNpz, TypesWithoutNpyAreWrittenAsWiderOnes) {
  Array bf16(ElementType::kBfloat16, {1});
  bf16.mutable_as<uint16_t>()[0] = 0x3fc0;
  const auto notes = write_npz(path_.string(), {{"b", bf16}});
  EXPECT_THAT(notes, ElementsAre(HasSubstr("'b' is bfloat16")));
  EXPECT_THAT(values<float>(read_npz(path_.string()).at("b")), ElementsAre(1.5f));
}

TEST_F(TensorNpz, EveryCutAndEveryFlippedByteIsRefusedOrHarmless) {
  write_npz(path_.string(), {{"x", f32({2}, {1, 2})}, {"y", i64({1}, {7})}});
  const std::string whole = bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    EXPECT_NE(refusal(), "") << length;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    put(damaged);
    try {
      for (const auto& [name, array] : read_npz(path_.string())) {
        // Names and dates are not summed; elements are.
        if (name == "x") {
          EXPECT_THAT(values<float>(array), ElementsAre(1, 2)) << at;
        }
      }
    } catch (const Error&) {
    }
  }
}

std::string npy(const std::string& dict, const std::string& elements) {
  std::string out("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(dict.size());
  out.append(reinterpret_cast<const char*>(&length), 2);
  return out + dict + elements;
}

Array parse(const std::string& text) {
  return parse_npy(std::as_bytes(std::span(text)), "'x'");
}

TEST_F(TensorNpz, ColumnsFirstIsTurnedRound) {
  const Array x =
      parse(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", "\1\2\3\4\5\6"));
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_THAT(values<uint8_t>(x), ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST_F(TensorNpz, HeadersThatLieAreRefused) {
  for (const char* dict : {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }",
                           "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                           "{'descr': '<f4', 'fortran_order': False, "
                           "'shape': (4611686018427387904, 4611686018427387904), }",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (x), }",
                           "{'descr': '<f4', 'shape': (1", "{'descr': ", "{}", ""}) {
    EXPECT_THROW(parse(npy(dict, "abcd")), Error) << dict;
  }
}

// numpy.savez_compressed of x = 300 times int32 7, by numpy 2.4.6.
constexpr unsigned char kDeflated[] = {
    0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x3a, 0x5b,
    0x2c, 0x96, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x78, 0x2e,
    0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x30, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x53,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50,
    0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x69, 0xa2,
    0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a,
    0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a,
    0xc6, 0x06, 0x06, 0x3a, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x64, 0x03, 0x2e, 0x76, 0x06, 0x06, 0x86,
    0x51, 0x3c, 0x8a, 0x47, 0xf1, 0x28, 0x1e, 0x0a, 0x18, 0x00, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03,
    0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x3a, 0x5b, 0x2c, 0x96, 0x53, 0x00,
    0x00, 0x00, 0x30, 0x05, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x78, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x05,
    0x06, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x33, 0x00, 0x00, 0x00, 0x8a, 0x00, 0x00,
    0x00, 0x00, 0x00,
};

TEST_F(TensorNpz, DeflatedEntriesAreRead) {
  put(std::string(reinterpret_cast<const char*>(kDeflated), sizeof(kDeflated)));
  const auto read = read_npz(path_.string());
  ASSERT_EQ(read.at("x").count(), 300);
  EXPECT_EQ(read.at("x").as<int32_t>()[299], 7);
}

TEST_F(TensorNpz, OnlyWhatIsWantedIsUnpacked) {
  std::string damaged(reinterpret_cast<const char*>(kDeflated), sizeof(kDeflated));
  damaged[0x40] = static_cast<char>(damaged[0x40] ^ 1);
  put(damaged);
  EXPECT_NE(refusal(), "");
  const auto read = read_npz(path_.string(), [](const std::string&) { return false; });
  EXPECT_EQ(read.at("x").type(), ElementType::kUndefined);
}

// A few kilobytes whose directory names one entry again and again.
TEST_F(TensorNpz, EntriesThatShareBytesAreRefused) {
  constexpr size_t kDirectory = 0x8a, kEntryBytes = 0x33;
  std::string twice(reinterpret_cast<const char*>(kDeflated), sizeof(kDeflated));
  std::string again = twice.substr(kDirectory, kEntryBytes);
  again[46] = 'y';
  twice.insert(kDirectory + kEntryBytes, again);
  const size_t end = kDirectory + 2 * kEntryBytes;
  twice[end + 8] = twice[end + 10] = 2;
  twice[end + 12] = 2 * kEntryBytes;
  put(twice);
  EXPECT_THAT(refusal(), HasSubstr("overlap"));
}

}  // namespace
}  // namespace kvern::eval
