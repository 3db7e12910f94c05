#include <gtest/gtest.h>

#include "base/wire.h"
#include "plan/kv_layout.h"

namespace kvern::plan {
namespace {

KvSlot slot(int64_t layer, DType storage, int32_t window = 0) {
  KvSlot s;
  s.layers = {layer};
  s.kv_heads = 3;
  s.dim_k = 64;
  s.dim_v = 64;
  s.k_format.storage = storage;
  s.v_format.storage = storage;
  if (window > 0) {
    s.retention = Retention::kWindow;
    s.window_tokens = window;
  }
  s.position_scheme = "rope";
  return s;
}

TEST(KvLayoutTest, RangesFollowOneAnotherInAPage) {
  const KvLayout layout = KvLayout::make({slot(0, DType::kBf16), slot(1, DType::kBf16)}, 16);
  ASSERT_EQ(layout.groups().size(), 1u);
  const KvPlacement& first = layout.placement(0);
  const int64_t head = 16 * 64 * 2;
  EXPECT_EQ(first.k_offset, 0);
  EXPECT_EQ(first.k_head_bytes, head);
  EXPECT_EQ(first.k_token_bytes, 128);
  EXPECT_EQ(first.v_offset, 3 * head);
  EXPECT_EQ(layout.placement(1).k_offset, 6 * head);
  EXPECT_EQ(layout.groups()[0].page_bytes, 12 * head);
  EXPECT_EQ(layout.bytes_per_token(), 12 * head / 16);
}

TEST(KvLayoutTest, QuantisedHeadsCarryTheirScales) {
  const KvLayout layout = KvLayout::make({slot(0, DType::kI8)}, 16);
  const KvPlacement& place = layout.placement(0);
  EXPECT_EQ(place.k_token_bytes, 64);
  EXPECT_EQ(place.k_scale_offset, 16 * 64);
  EXPECT_EQ(place.k_scale_token_bytes, 2 * 2);  // 64 / 32 groups of f16
  EXPECT_EQ(place.k_head_bytes, 1152);          // 1024 + 64, rounded up to 128
  EXPECT_EQ(place.v_offset % 128, 0);
}

TEST(KvLayoutTest, AShortLastScaleGroupIsCounted) {
  KvSlot odd = slot(0, DType::kI8);
  odd.dim_k = 80;
  EXPECT_EQ(KvLayout::make({odd}, 16).placement(0).k_scale_token_bytes, 3 * 2);
}

TEST(KvLayoutTest, EqualRetentionSharesAGroup) {
  const KvLayout layout =
      KvLayout::make({slot(0, DType::kBf16), slot(1, DType::kBf16, 512), slot(2, DType::kBf16),
                      slot(3, DType::kBf16, 512), slot(4, DType::kBf16, 256)},
                     16);
  ASSERT_EQ(layout.groups().size(), 3u);
  EXPECT_EQ(layout.groups()[0].slots, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(layout.groups()[1].slots, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(layout.placement(3).kv_group, 1);
}

TEST(KvLayoutTest, HashTellsFormatsAndPageLengthsApart) {
  const uint64_t base = KvLayout::make({slot(0, DType::kBf16)}, 16).hash();
  EXPECT_EQ(base, KvLayout::make({slot(0, DType::kBf16)}, 16).hash());
  EXPECT_NE(base, KvLayout::make({slot(0, DType::kBf16)}, 32).hash());
  EXPECT_NE(base, KvLayout::make({slot(0, DType::kI8)}, 16).hash());
}

TEST(KvLayoutTest, ImpossibleSizesAreRefused) {
  EXPECT_THROW(KvLayout::make({slot(0, DType::kBf16)}, 0), Error);
  EXPECT_THROW(KvLayout::make({slot(0, DType::kI32)}, 16), Error);
  KvSlot huge = slot(0, DType::kBf16);
  huge.dim_k = 1 << 20;
  EXPECT_THROW(KvLayout::make({huge}, 16), Error);
  KvSlot none = slot(0, DType::kBf16);
  none.layers.clear();
  EXPECT_THROW(KvLayout::make({none}, 16), Error);
}

TEST(KvLayoutTest, ComesBackFromBytes) {
  const KvLayout layout = KvLayout::make({slot(0, DType::kI8), slot(1, DType::kF32, 7)}, 32);
  WireWriter out;
  write_kv_layout(out, layout);
  WireReader in(std::as_bytes(std::span(out.bytes())), "test");
  EXPECT_EQ(read_kv_layout(in).hash(), layout.hash());
  in.expect_end();
}

}  // namespace
}  // namespace kvern::plan
