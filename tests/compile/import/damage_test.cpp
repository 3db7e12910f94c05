// Fifty damaged variants of a small real file: each loads or is refused, none crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/file.h"
#include "compile/import/gguf/import.h"
#include "compile/import/gguf/reader.h"
#include "compile/import/import.h"
#include "kvern/error.h"
#include "tests/compile/import/gguf_builder.h"

namespace kvern::import {
namespace {

std::string tiny_file() {
  return read_text_file(KVERN_TEST_DATA "/golden/tiny_llama_q.gguf", 1 << 20);
}

// True when it loads; a refusal must say which file and be of the right kind.
bool loads(const std::string& bytes) {
  try {
    gguf::import_bytes(gguf::as_bytes(bytes), "tiny.gguf", {});
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::kInvalidModel || error.code() == Code::kUnsupported)
        << code_name(error.code()) << ": " << error.what();
    EXPECT_GT(std::string(error.what()).size(), 20u);
    return false;
  }
}

TEST(GgufDamage, FiftyVariantsLoadOrAreRefused) {
  const std::string whole = tiny_file();
  ASSERT_TRUE(loads(whole));
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(loads(whole.substr(0, whole.size() * i / 20))) << i;
  }
  // Header, metadata and tensor table: every byte there is fair game.
  const size_t head_bytes = gguf::read(gguf::as_bytes(whole), "tiny.gguf").tensors[0].offset;
  int refused = 0;
  for (size_t i = 0; i < 30; ++i) {
    std::string damaged = whole;
    const size_t at = i < 8 ? i * 3 : (i * 2654435761u) % head_bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (i % 2 == 0 ? 0xff : 1 << i % 8));
    if (!loads(damaged)) ++refused;
  }
  EXPECT_GT(refused, 8);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(Import, OtherFilesAreNamed) {
  try {
    load(KVERN_TEST_DATA "/golden/tiny_llama.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidModel);
    EXPECT_THAT(error.what(), testing::HasSubstr("is neither a GGUF nor an ONNX file"));
  }
  try {
    load(KVERN_TEST_DATA "/golden");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("holds no config.json"));
  }
  EXPECT_THROW(load("/nowhere/x.gguf"), Error);
}

}  // namespace
}  // namespace kvern::import
