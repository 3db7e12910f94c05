#include "tensor/quant_format.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(QuantFormat, PrintsAndCountsBytes) {
  const QuantFormat bf16{DType::kBf16, 0, DType::kF16, false};
  const QuantFormat i4{DType::kI4, 32, DType::kF16, true};
  const QuantFormat i8{DType::kI8, 0, DType::kF32, false};
  EXPECT_EQ(to_string(bf16), "bf16");
  EXPECT_EQ(to_string(i4), "i4 g32 f16 min");
  EXPECT_EQ(to_string(i8), "i8 row f32");
  EXPECT_EQ(bytes_per_element(bf16), 2.0);
  EXPECT_EQ(bytes_per_element(i4), 5.0 / 8);
  EXPECT_EQ(bytes_per_element({DType::kI4, 32, DType::kF16, false}), 4.5 / 8);
}

TEST(QuantFormat, TheLastGroupMayBeShorter) {
  const QuantFormat i4{DType::kI4, 32, DType::kF16, false};
  EXPECT_EQ(i4.groups(64), 2);
  EXPECT_EQ(i4.groups(65), 3);
  EXPECT_EQ((QuantFormat{DType::kI8, 0, DType::kF16, false}.groups(65)), 1);
  EXPECT_EQ(QuantFormat().groups(65), 0);
  EXPECT_EQ((KvFormat{DType::kI8, 32}.groups(80)), 3);
  EXPECT_EQ((KvFormat{DType::kBf16, 32}.groups(80)), 0);
}

TEST(QuantFormat, FieldsRoundTrip) {
  const QuantFormat format{DType::kI4, 16, DType::kF32, true};
  EXPECT_EQ(from_fields<QuantFormat>(to_fields(format)), format);
  const KvFormat kv{DType::kF8E4M3, 64};
  EXPECT_EQ(from_fields<KvFormat>(to_fields(kv)), kv);
}

TEST(DType, NamesAndSizes) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("f64"), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kI4, 3), 2);
  EXPECT_EQ(dtype_bytes(DType::kBf16, 3), 6);
  EXPECT_TRUE(is_float(DType::kF8E4M3));
  EXPECT_FALSE(is_float(DType::kI8));
}

}  // namespace
}  // namespace kvern
