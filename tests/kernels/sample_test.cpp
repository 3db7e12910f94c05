#include "kernels/sample.h"

#include <cmath>

#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

std::vector<int32_t> argmax(std::vector<float> logits, int64_t rows, int64_t vocabulary,
                            int64_t stride) {
  std::vector<int32_t> ids(static_cast<size_t>(rows), -7);
  argmax_cpu({logits.data(), rows, vocabulary, stride, ids.data(), &testing::stream_of(2)});
  return ids;
}

TEST(Argmax, FindsTheLowestOfEqualOnes) {
  for (const int64_t size : {1, 15, 16, 17, 50, 49152}) {
    std::vector<float> logits(static_cast<size_t>(size), -3.0f);
    EXPECT_EQ(argmax(logits, 1, size, size)[0], 0);
    for (const int64_t at : {size - 1, size / 2, int64_t{0}}) {
      logits[at] = 2.5f;
      EXPECT_EQ(argmax(logits, 1, size, size)[0], at) << size;
    }
  }
}

TEST(Argmax, NaNNeverWins) {
  const float nan = std::nanf("");
  const float low = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(argmax({nan, low, nan}, 1, 3, 3)[0], 1);
  EXPECT_EQ(argmax({nan, nan}, 1, 2, 2)[0], 0);
  std::vector<float> logits(100, nan);
  logits[70] = -1e30f;
  EXPECT_EQ(argmax(logits, 1, 100, 100)[0], 70);
  logits[70] = low;
  EXPECT_EQ(argmax(logits, 1, 100, 100)[0], 70);
}

TEST(Argmax, RowsAreStrided) {
  std::vector<float> logits(40 * 9000, 100.0f);  // the gaps would win
  for (int64_t r = 0; r < 40; ++r) {
    for (int64_t i = 0; i < 8192; ++i) logits[r * 9000 + i] = 0.0f;
    logits[r * 9000 + 31 * r] = 1.0f;
  }
  const auto ids = argmax(logits, 40, 8192, 9000);
  for (int32_t r = 0; r < 40; ++r) EXPECT_EQ(ids[r], 31 * r);
}

}  // namespace
}  // namespace kvern::kernels
