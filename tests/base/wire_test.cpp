#include "base/wire.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

WireReader reader_of(const WireWriter& out, size_t size) {
  return {std::as_bytes(std::span(out.bytes())).first(size), "bytes"};
}

WireReader reader_of(const WireWriter& out) {
  return reader_of(out, out.bytes().size());
}

std::vector<NamedField> all_kinds() {
  return {{1, "", true},
          {2, "", int64_t{-5}},
          {3, "", 0.1},
          {4, "", std::string("text")},
          {5, "", std::vector<int64_t>{1, 2}},
          {6, "", std::vector<double>{1.5}}};
}

void write_all(WireWriter& out) {
  out.number<uint16_t>(0x1234);
  out.string("name");
  out.fields(all_kinds());
}

void read_all(WireReader& in) {
  EXPECT_EQ(in.number<uint16_t>("number"), 0x1234);
  EXPECT_EQ(in.string("string"), "name");
  EXPECT_EQ(in.fields("fields"), all_kinds());
  in.expect_end();
}

TEST(Wire, ComesBackAsWritten) {
  WireWriter out;
  write_all(out);
  EXPECT_EQ(out.bytes()[0], 0x34);  // little-endian
  WireReader in = reader_of(out);
  read_all(in);
}

TEST(Wire, RefusesEveryShorterInput) {
  WireWriter out;
  write_all(out);
  for (size_t size = 0; size < out.bytes().size(); ++size) {
    WireReader in = reader_of(out, size);
    EXPECT_THROW(read_all(in), Error) << size;
  }
  out.number<uint8_t>(0);
  WireReader in = reader_of(out);
  EXPECT_THROW(read_all(in), Error);  // one byte too many
}

TEST(Wire, CountsAreHeldToTheBytesLeftAndTheMost) {
  WireWriter out;
  out.number<uint32_t>(3);
  for (int i = 0; i < 3; ++i) out.number<uint64_t>(0);
  EXPECT_EQ(reader_of(out).count(8, "items"), 3u);
  EXPECT_EQ(reader_of(out).count(8, "items", 3), 3u);
  EXPECT_THROW(reader_of(out).count(9, "items"), Error);
  EXPECT_THROW(reader_of(out).count(8, "items", 2), Error);
}

TEST(Wire, FieldsAreFewAndComeOnce) {
  const auto read = [](const std::vector<NamedField>& fields) {
    WireWriter out;
    out.fields(fields);
    return reader_of(out).fields("desc");
  };
  std::vector<NamedField> fields;
  for (int number = 1; number <= 64; ++number) fields.push_back({number, "", true});
  EXPECT_EQ(read(fields).size(), 64u);
  fields.push_back({65, "", true});
  EXPECT_THROW(read(fields), Error);
  EXPECT_THROW(read({{1, "", true}, {2, "", true}, {1, "", true}}), Error);
  EXPECT_THROW(read({{0, "", true}}), Error);
}

TEST(Wire, ErrorsNameBytesAndPlace) {
  WireWriter out;
  out.number<uint16_t>(1);
  WireReader in({std::as_bytes(std::span(out.bytes()))}, "plan 'x'", Code::kInvalidModel);
  in.number<uint8_t>("first");
  try {
    in.number<uint32_t>("second");
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("plan 'x': second at byte 1"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace kvern
