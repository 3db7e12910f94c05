#include "kernels/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kvern/error.h"
#include "tests/kernels/coded_rows.h"

namespace kvern::kernels {
namespace {

std::vector<QuantFormat> all_formats() {
  std::vector<QuantFormat> out = {{DType::kF32}, {DType::kF16}, {DType::kBf16}};
  for (const DType storage : {DType::kI8, DType::kI4}) {
    for (const int32_t group : {0, 16, 32, 64, 128}) {
      for (const DType scale : {DType::kF16, DType::kF32}) {
        for (const bool has_min : {false, true}) out.push_back({storage, group, scale, has_min});
      }
    }
  }
  return out;
}

TEST(Pack, RoundTripsEveryFormatAndTail) {
  for (const QuantFormat& format : all_formats()) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {16, 64}, {17, 100}, {37, 161}}) {
      SCOPED_TRACE(to_string(format) + " " + std::to_string(n) + "x" + std::to_string(k));
      const CodedRows rows = testing::random_rows(format, n, k, 7);
      std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(format, n, k)));
      pack(rows, packed);
      const CodedRows back = unpack(format, n, k, packed);
      EXPECT_TRUE(back.codes == rows.codes);
      EXPECT_TRUE(back.scales == rows.scales);
      EXPECT_TRUE(back.minima == rows.minima);
    }
  }
}

TEST(Pack, UnpackRowIsScaleTimesCodePlusMinInF32) {
  for (const QuantFormat& format : all_formats()) {
    if (!format.quantised()) continue;
    SCOPED_TRACE(to_string(format));
    const int64_t n = 19, k = 133;
    const CodedRows rows = testing::random_rows(format, n, k, 3);
    std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(format, n, k)));
    pack(rows, packed);
    std::vector<float> values(static_cast<size_t>(k));
    for (const int64_t row : {int64_t{0}, int64_t{15}, int64_t{18}}) {
      unpack_row(format, n, k, packed.data(), row, values.data());
      for (int64_t i = 0; i < k; ++i) {
        const int64_t group = format.group == 0 ? 0 : i / format.group;
        const auto g = static_cast<size_t>(row * format.groups(k) + group);
        const auto code = static_cast<int8_t>(rows.codes[static_cast<size_t>(row * k + i)]);
        volatile float expected = rows.scales[g] * static_cast<float>(code);
        if (format.has_min) expected = expected + rows.minima[g];
        ASSERT_EQ(values[static_cast<size_t>(i)], expected) << "row " << row << " k " << i;
      }
    }
  }
}

TEST(Pack, UnpackRowGivesFloatsAsTheyAre) {
  CodedRows rows{{DType::kBf16}, 1, 3, {}, {}, {}};
  const uint16_t bits[] = {0x3f80, 0xc000, 0x3e80};
  rows.codes.resize(sizeof(bits));
  std::memcpy(rows.codes.data(), bits, sizeof(bits));
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(rows.format, 1, 3)));
  pack(rows, packed);
  float values[3];
  unpack_row(rows.format, 1, 3, packed.data(), 0, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  EXPECT_EQ(values[2], 0.25f);
}

// The places that kernels rely on, spelled out once by hand.
TEST(Pack, ALineHoldsOneStepOfSixteenRows) {
  CodedRows rows{{DType::kI8, 32, DType::kF16, false}, 16, 8, {}, {}, {}};
  for (int i = 0; i < 16 * 8; ++i) rows.codes.push_back(static_cast<std::byte>(i));
  rows.scales.assign(16, 1.0f);
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(rows.format, 16, 8)));
  ASSERT_EQ(packed.size(), 64u + 2 * 64u);
  pack(rows, packed);
  // row 3, k = 6: the second step, the row's third byte
  EXPECT_EQ(packed[64 + 64 + 3 * 4 + 2], std::byte{3 * 8 + 6});
}

TEST(Pack, SizesAreOnesThatTheFormatImplies) {
  const QuantFormat q4_1{DType::kI4, 32, DType::kF16, true};
  EXPECT_EQ(packed_bytes(q4_1, 576, 576), 36 * (2 * 576 + 72 * 64));
  EXPECT_EQ(packed_bytes({DType::kF32}, 17, 3), 2 * 3 * 64);
}

TEST(Pack, RefusesWhatNoKernelReads) {
  EXPECT_THROW(packed_bytes({DType::kF8E4M3}, 16, 16), Error);
  EXPECT_THROW(packed_bytes({DType::kI8, 48}, 16, 16), Error);
  EXPECT_THROW(packed_bytes({DType::kI8, 32, DType::kBf16}, 16, 16), Error);
  EXPECT_THROW(packed_bytes({DType::kF32, 0, DType::kF16, true}, 16, 16), Error);
  EXPECT_THROW(packed_bytes({DType::kF32}, 0, 16), Error);
  EXPECT_THROW(packed_bytes({DType::kF32}, 16, int64_t{1} << 40), Error);
}

}  // namespace
}  // namespace kvern::kernels
