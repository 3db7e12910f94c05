#include "base/wire.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace kvern {
namespace {

std::span<const std::byte> bytes_of(const WireWriter& writer) {
  return std::as_bytes(std::span(writer.bytes()));
}

TEST(Wire, NumbersAndStringsGoThereAndBack) {
  WireWriter writer;
  writer.number<uint8_t>(7);
  writer.number<int64_t>(-5);
  writer.string(std::string("a\0b", 3));
  writer.number(2.5);
  WireReader reader(bytes_of(writer), "test");
  EXPECT_EQ(reader.number<uint8_t>("a"), 7);
  EXPECT_EQ(reader.number<int64_t>("b"), -5);
  EXPECT_EQ(reader.string("c"), std::string("a\0b", 3));
  EXPECT_EQ(reader.number<double>("d"), 2.5);
  EXPECT_EQ(reader.remaining(), 0u);
  reader.expect_end();
}

TEST(Wire, BytesLeftOverAreRefused) {
  WireWriter writer;
  writer.number<uint32_t>(1);
  WireReader reader(bytes_of(writer), "test");
  reader.number<uint8_t>("a");
  EXPECT_THROW(reader.expect_end(), Error);
}

TEST(Wire, CountsThatCannotBeThereAreRefused) {
  WireWriter writer;
  writer.number<uint32_t>(3);
  writer.number<uint64_t>(0);
  WireReader fits(bytes_of(writer), "test");
  EXPECT_EQ(fits.count(2, "items"), 3u);
  WireReader too_many(bytes_of(writer), "test");
  EXPECT_THROW(too_many.count(4, "items"), Error);
}

TEST(Wire, AStringLongerThanTheBytesIsRefusedWithWords) {
  WireWriter writer;
  writer.number<uint32_t>(0xffffffff);
  WireReader reader(bytes_of(writer), "plan 'x', section 'text'", Code::kInvalidPlan);
  try {
    reader.string("model name");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidPlan);
    EXPECT_NE(std::string(error.what()).find("section 'text'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("model name"), std::string::npos) << error.what();
  }
}

TEST(Hash, PartsGiveTheSumOfTheWhole) {
  const std::string text(100000, 'x');
  const auto whole = std::as_bytes(std::span(text));
  Hasher hasher;
  hasher.update(whole.first(1));
  hasher.update(whole.subspan(1, 70000));
  hasher.update(whole.subspan(70001));
  EXPECT_EQ(hasher.digest(), hash64(whole));
  EXPECT_NE(hash64(whole.first(99999)), hash64(whole));
}

TEST(Hash, HasItsPublishedValue) {
  EXPECT_EQ(hex64(hash64(std::string_view())), "2d06800538d394c2");  // XXH3_64bits of nothing
  EXPECT_EQ(hex64(10), "000000000000000a");
}

}  // namespace
}  // namespace kvern
