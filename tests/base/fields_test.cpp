#include "base/fields.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace kvern {
namespace {

enum class Colour : uint8_t { kRed = 0, kBlue = 3 };

struct Sample {
  float eps = 1e-5f;
  double wide = 0.1;
  int32_t heads = 9;
  bool causal = false;
  Colour colour = Colour::kRed;
  std::string name = "x";
  std::vector<int64_t> dims;
  std::vector<double> scales;
  friend bool operator==(const Sample&, const Sample&) = default;
  static constexpr auto fields() {
    return std::tuple{field(1, "eps", &Sample::eps),       field(2, "wide", &Sample::wide),
                      field(3, "heads", &Sample::heads),   field(4, "causal", &Sample::causal),
                      field(5, "colour", &Sample::colour), field(6, "name", &Sample::name),
                      field(7, "dims", &Sample::dims),     field(8, "scales", &Sample::scales)};
  }
};

std::string print(const Sample& sample) {
  return print_fields(to_fields(sample));
}

Sample parse(const std::string& text) {
  return from_fields<Sample>(parse_fields(text));
}

TEST(Fields, FloatsPrintAsTheirShortestDecimal) {
  EXPECT_NE(print(Sample()).find("eps = 1e-05,"), std::string::npos) << print(Sample());
  EXPECT_NE(print(Sample()).find("wide = 0.1,"), std::string::npos) << print(Sample());
}

TEST(Fields, EveryFloatComesBackAsItself) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    Sample sample;
    const auto bits = static_cast<uint32_t>(random());
    sample.eps = std::bit_cast<float>(bits);
    if (!std::isfinite(sample.eps)) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(parse(print(sample)).eps), bits) << print(sample);
    EXPECT_EQ(std::bit_cast<uint32_t>(from_fields<Sample>(to_fields(sample)).eps), bits);
  }
}

TEST(Fields, TextRoundTrips) {
  Sample sample{0.0f, 2.0, -7, true, Colour::kBlue, "a \"b\"\\\nc", {1, -2, 3}, {1.0, 2.5}};
  EXPECT_EQ(parse(print(sample)), sample) << print(sample);
  EXPECT_EQ(parse("{}"), Sample());
  EXPECT_EQ(parse("{ heads=4 }").heads, 4);
}

TEST(Fields, RefusesWhatTheStructCannotHold) {
  const auto refused = [](std::vector<NamedField> fields) {
    EXPECT_THROW(from_fields<Sample>(fields), Error);
  };
  refused({{9, "", int64_t{1}}});                     // no such field
  refused({{0, "head", int64_t{1}}});                 // no such name
  refused({{3, "", int64_t{1} << 40}});               // does not fit int32
  refused({{3, "", 1.5}});                            // another type
  refused({{4, "", int64_t{1}}});                     // not a truth value
  refused({{5, "", int64_t{256}}});                   // beyond the enum's bytes
  refused({{7, "", std::vector<double>{1.0, 2.0}}});  // another list
}

TEST(Fields, RefusesTextThatIsNone) {
  for (const char* text : {"", "{", "{a}", "{a = }", "{a = 1 b = 2}", "{a = \"x}", "{a = [1, 2.5]}",
                           "{a = tru}", "{a = 1} x", "{= 1}"}) {
    EXPECT_THROW(parse_fields(text), Error) << text;
  }
}

}  // namespace
}  // namespace kvern
