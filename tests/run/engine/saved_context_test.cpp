// The file of a saved context: damage is found, another plan's is refused by name, and no bytes
// lead outside the file.
#include "run/engine/saved_context.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "kvern/error.h"

namespace kvern::engine {
namespace {

ContextShape shape() {
  ContextShape out;
  out.plan_name = "tiny";
  out.plan_fingerprint = 0x1234;
  out.layout_hash = 0x99;
  out.vocabulary_size = 50;
  out.max_context_length = 64;
  out.groups = {{100, 4, 0}, {100, 4, 6}};
  out.page_bytes = {16, 24};
  return out;
}

std::vector<std::byte> saved(const ContextShape& with) {
  std::vector<std::byte> pages(16 * 4 + 24 * 2);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::byte>(i);
  SavedContext context;
  for (int32_t i = 0; i < 15; ++i) context.ids.push_back(i);
  context.computed = 14;
  context.pages = pages_of(with, 14);
  context.pages[0].bytes = std::span(pages).first(16 * 4);
  context.pages[1].bytes = std::span(pages).subspan(16 * 4);
  const std::string path = ::testing::TempDir() + "saved_context_test.kvc";
  write_saved_context(path, with, context);
  const MappedFile file(path);
  return {file.bytes().begin(), file.bytes().end()};
}

Code refusal(std::span<const std::byte> bytes, const ContextShape& with, bool sums = true) {
  try {
    parse_saved_context(bytes, "x.kvc", with, sums);
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kInternal;  // was accepted
}

TEST(SavedContextFile, ComesBackAsItWent) {
  const std::vector<std::byte> bytes = saved(shape());
  const SavedContext context = parse_saved_context(bytes, "x.kvc", shape());
  EXPECT_EQ(context.ids.size(), 15u);
  EXPECT_EQ(context.computed, 14);
  ASSERT_EQ(context.pages.size(), 2u);
  EXPECT_EQ(context.pages[0].first_page, 0);
  EXPECT_EQ(context.pages[0].num_pages, 4);
  EXPECT_EQ(context.pages[1].first_page, 2);  // the next token sees 9 … 14
  EXPECT_EQ(context.pages[1].num_pages, 2);
  EXPECT_EQ(context.pages[1].bytes[1], static_cast<std::byte>(16 * 4 + 1));
}

TEST(SavedContextFile, AnotherPlansIsRefusedNamingBoth) {
  const std::vector<std::byte> bytes = saved(shape());
  ContextShape other = shape();
  other.plan_fingerprint = 0x5678;
  other.plan_name = "large";
  try {
    parse_saved_context(bytes, "x.kvc", other);
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    for (const char* name : {"x.kvc", "tiny", "large", "1234", "5678"}) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  other = shape();
  other.layout_hash = 1;
  EXPECT_EQ(refusal(bytes, other), Code::kInvalidArgument);
}

TEST(SavedContextFile, EveryCutAndEveryFlippedBitIsFound) {
  const std::vector<std::byte> bytes = saved(shape());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(refusal(std::span(bytes).first(size), shape()), Code::kInvalidPlan) << size;
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{1};
    const bool version = at >= 8 && at < 12;
    EXPECT_EQ(refusal(damaged, shape()), version ? Code::kUnsupported : Code::kInvalidPlan) << at;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  EXPECT_EQ(refusal(longer, shape()), Code::kInvalidPlan);
}

TEST(SavedContextFile, OfOtherNumericsKeepsItsTokensAlone) {
  const std::vector<std::byte> bytes = saved(shape());
  ContextShape other = shape();
  other.numerics_hash = 1;
  const SavedContext context = parse_saved_context(bytes, "x.kvc", other);
  EXPECT_TRUE(context.other_numerics);
  EXPECT_EQ(context.ids.size(), 15u);
  EXPECT_EQ(context.computed, 0);
  for (const SavedContext::Pages& pages : context.pages) EXPECT_EQ(pages.num_pages, 0);
  EXPECT_FALSE(parse_saved_context(bytes, "x.kvc", shape()).other_numerics);
}

TEST(SavedContextFile, NoMoreIsReadThanItsHeaderAllows) {
  const std::vector<std::byte> bytes = saved(shape());
  const std::string path = ::testing::TempDir() + "saved_context_read.kvc";
  const auto write = [&](std::span<const std::byte> what, uint64_t size) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(what.data()),
               static_cast<std::streamsize>(what.size()));
    std::filesystem::resize_file(path, size);
  };
  const auto refused = [&] {
    try {
      read_saved_context(path, shape());
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kInternal;  // was read
  };
  write(bytes, bytes.size());
  EXPECT_EQ(read_saved_context(path, shape()), bytes);
  for (const size_t size : {size_t{0}, size_t{47}, bytes.size() - 1}) {
    write(bytes, size);
    EXPECT_EQ(refused(), Code::kInvalidPlan) << size;
  }
  // A terabyte of nothing, which costs no disk, is not allocated.
  for (const size_t field : {16, 24}) {  // header_bytes, page_bytes
    std::vector<std::byte> large = bytes;
    uint64_t value = 0;
    std::memcpy(&value, large.data() + field, sizeof(value));
    value += uint64_t{1} << 40;
    std::memcpy(large.data() + field, &value, sizeof(value));
    write(large, bytes.size() + (uint64_t{1} << 40));
    EXPECT_EQ(refused(), Code::kInvalidPlan) << field;
  }
  std::filesystem::remove(path);
  EXPECT_EQ(refused(), Code::kNotFound);
}

// Whatever passes without sums keeps inside the file.
TEST(SavedContextFile, DamageThatNoSumShowsIsHarmless) {
  const std::vector<std::byte> bytes = saved(shape());
  std::mt19937 random(1);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> damaged = bytes;
    for (uint32_t n = 1 + random() % 3; n-- > 0;) {
      damaged[16 + random() % (damaged.size() - 16)] = static_cast<std::byte>(random() % 256);
    }
    try {
      const SavedContext context = parse_saved_context(damaged, "x.kvc", shape(), false);
      ++accepted;
      ASSERT_LE(context.computed, static_cast<int64_t>(context.ids.size()));
      for (const SavedContext::Pages& pages : context.pages) {
        ASSERT_TRUE(pages.bytes.empty() ||
                    (pages.bytes.data() >= damaged.data() &&
                     pages.bytes.data() + pages.bytes.size() <= damaged.data() + damaged.size()));
      }
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace kvern::engine
