#include "base/fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/wire.h"

namespace kvern {
namespace {

enum class Colour : uint8_t { kRed = 0, kBlue = 1 };

struct Sample {
  bool on = false;
  int32_t heads = 9;
  float eps = 1e-5f;
  double base = 10000.0;
  std::string name = "a";
  std::vector<int64_t> sizes;
  Colour colour = Colour::kRed;
  static constexpr auto fields() {
    return std::tuple{field(1, "on", &Sample::on),        field(2, "heads", &Sample::heads),
                      field(3, "eps", &Sample::eps),      field(4, "base", &Sample::base),
                      field(5, "name", &Sample::name),    field(6, "sizes", &Sample::sizes),
                      field(9, "colour", &Sample::colour)};
  }
};

Sample odd_sample() {
  Sample sample;
  sample.on = true;
  sample.heads = -3;
  sample.eps = 3.0f;  // must not come back as an integer
  sample.base = 0.1;
  sample.name = "quote \" slash \\ line\n end";
  sample.sizes = {0, -1, std::numeric_limits<int64_t>::max()};
  sample.colour = Colour::kBlue;
  return sample;
}

void expect_same(const Sample& a, const Sample& b) {
  EXPECT_EQ(to_fields(a), to_fields(b));
  EXPECT_EQ(b.sizes, a.sizes);
  EXPECT_EQ(b.name, a.name);
  EXPECT_EQ(b.colour, a.colour);
}

TEST(Fields, TextGoesThereAndBack) {
  const Sample sample = odd_sample();
  const std::string text = print_fields(to_fields(sample));
  expect_same(sample, from_fields<Sample>(parse_fields(text)));
  EXPECT_EQ(print_fields(to_fields(Sample{}))[0], '{');
}

TEST(Fields, BytesGoThereAndBack) {
  WireWriter writer;
  writer.object(odd_sample());
  WireReader reader(std::as_bytes(std::span(writer.bytes())), "sample");
  expect_same(odd_sample(), reader.object<Sample>("sample"));
  reader.expect_end();
}

TEST(Fields, WhatIsNotGivenKeepsItsDefault) {
  const Sample sample = from_fields<Sample>(parse_fields("{heads = 4}"));
  EXPECT_EQ(sample.heads, 4);
  EXPECT_EQ(sample.eps, 1e-5f);
  EXPECT_EQ(sample.name, "a");
}

TEST(Fields, WrongNamesTypesAndRangesAreRefused) {
  for (const char* text :
       {"{legs = 4}", "{heads = \"four\"}", "{heads = 4.5}", "{on = 1}", "{heads = 99999999999}",
        "{heads = 99999999999999999999}", "{colour = 300}", "{sizes = 3}"}) {
    EXPECT_THROW(from_fields<Sample>(parse_fields(text)), Error) << text;
  }
}

TEST(Fields, BrokenTextNamesItsColumn) {
  for (const char* text : {"", "{", "{heads}", "{heads = }", "{heads = 4", "{name = \"x}",
                           "heads = 4", "{sizes = [1, }", "{heads = 4} more"}) {
    EXPECT_THROW(parse_fields(text), Error) << text;
  }
}

TEST(Fields, EveryCutOfTheBytesIsRefused) {
  WireWriter writer;
  writer.object(odd_sample());
  const auto whole = std::as_bytes(std::span(writer.bytes()));
  for (size_t keep = 0; keep < whole.size(); ++keep) {
    WireReader reader(whole.first(keep), "sample");
    EXPECT_THROW(reader.object<Sample>("sample"), Error) << keep;
  }
}

}  // namespace
}  // namespace kvern
