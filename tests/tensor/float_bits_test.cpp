// Conversions against arithmetic in double, which holds every value of the small types exactly.
#include "tensor/float_bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace kvern {
namespace {

// The value of a small float by its definition; NaN and infinity where there are any.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const bool negative = (bits >> (exponent_bits + mantissa_bits)) != 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return negative ? -magnitude : magnitude;
}

TEST(FloatBits, EveryF16RoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    const bool special = (bits & 0x7c00u) == 0x7c00u;
    if (special && (bits & 0x3ffu) != 0) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
      continue;
    }
    if (special)
      EXPECT_EQ(value, (bits & 0x8000u) != 0 ? -INFINITY : INFINITY) << bits;
    else
      EXPECT_EQ(value, value_of(bits, 5, 10)) << bits;
    EXPECT_EQ(f32_to_f16(value), bits);
  }
}

// Between neighbours the nearer one wins, in the middle the even one.
TEST(FloatBits, F16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bffu; ++bits) {
    const double low = value_of(bits, 5, 10), high = value_of(bits + 1, 5, 10);
    const auto middle = static_cast<float>((low + high) / 2);  // exact: f32 has 13 bits more
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(f32_to_f16(middle), even) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, INFINITY)), bits + 1);
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000u);
  }
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
}

TEST(FloatBits, Bf16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(f32_to_bf16(value), bits);
    if (std::isinf(value)) continue;
    const uint32_t f32 = bits << 16;
    const auto from = [](uint32_t b) { return f32_to_bf16(std::bit_cast<float>(b)); };
    ASSERT_EQ(from(f32 + 0x7fff), bits);
    ASSERT_EQ(from(f32 + 0x8000), bits + bits % 2);
    ASSERT_EQ(from(f32 + 0x8001), bits + 1);
  }
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  // A NaN whose upper bits are all zero stays one.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(FloatBits, EveryE4m3HasItsValueAndRoundTrips) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float value = f8e4m3_to_f32(static_cast<uint8_t>(bits));
    if ((bits & 0x7fu) == 0x7fu) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    EXPECT_EQ(value, value_of(bits, 4, 3)) << bits;
    EXPECT_EQ(f32_to_f8e4m3(value), bits);
  }
  EXPECT_EQ(f8e4m3_to_f32(0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(f8e4m3_to_f32(f32_to_f8e4m3(NAN))));
}

TEST(FloatBits, E4m3RoundsToNearestEvenAndSaturates) {
  for (uint32_t bits = 0; bits < 0x7eu; ++bits) {
    const double low = value_of(bits, 4, 3), high = value_of(bits + 1, 4, 3);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(f32_to_f8e4m3(middle), bits + bits % 2) << bits;
    ASSERT_EQ(f32_to_f8e4m3(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(f32_to_f8e4m3(std::nextafter(middle, INFINITY)), bits + 1);
  }
  for (const float large : {449.0f, 1e9f, INFINITY}) {
    EXPECT_EQ(f32_to_f8e4m3(large), 0x7e);
    EXPECT_EQ(f32_to_f8e4m3(-large), 0xfe);
  }
}

}  // namespace
}  // namespace kvern
