#include "kernels/gather.h"

#include "kernels/pack.h"
#include "tests/kernels/coded_rows.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using testing::Rows;

Operand ids_operand(std::vector<int32_t>& ids) {
  return {reinterpret_cast<std::byte*>(ids.data()), static_cast<int64_t>(ids.size()), 4};
}

TEST(Embedding, PicksRowsOfEveryFormat) {
  for (const QuantFormat& format :
       {QuantFormat{DType::kF32}, QuantFormat{DType::kBf16},
        QuantFormat{DType::kI8, 32, DType::kF16}, QuantFormat{DType::kI4, 32, DType::kF16, true},
        QuantFormat{DType::kI4, 32, DType::kF32, true}, QuantFormat{DType::kI4, 16, DType::kF32},
        QuantFormat{DType::kI4, 0, DType::kF32}, QuantFormat{DType::kI8, 0, DType::kF32, true}}) {
    SCOPED_TRACE(to_string(format));
    EmbeddingDesc desc;
    desc.vocabulary = 37;
    desc.dim = 96;
    desc.storage = format.storage;
    desc.group = format.group;
    desc.scale = format.scale;
    desc.has_min = format.has_min;
    const CodedRows coded = testing::random_rows(format, 37, 96, 3);
    device::Buffer packed =
        device::allocate_host(static_cast<size_t>(packed_bytes(format, 37, 96)));
    pack(coded, {packed.data(), packed.size_bytes()});
    std::vector<int32_t> ids = {36, 0, 15, 16, 36};
    Rows y(5, 96, testing::kUntouched);
    const auto op = testing::prepare("embedding", desc, "cpu.embedding.plain");
    testing::run_op(*op, {ids_operand(ids), {packed.data(), 37, 0}}, {y.operand()}, 2);
    EXPECT_TRUE(y.gaps_untouched());
    for (int64_t r = 0; r < 5; ++r) {
      std::vector<float> row(96);
      unpack_row(format, 37, 96, packed.data(), ids[r], row.data());
      for (int64_t i = 0; i < 96; ++i) ASSERT_EQ(y.at(r, i), row[i]);
    }
    for (const int32_t bad : {-1, 37}) {
      ids[3] = bad;
      EXPECT_THROW(testing::run_op(*op, {ids_operand(ids), {packed.data(), 37, 0}}, {y.operand()}),
                   InternalError);
    }
  }
}

TEST(GatherRows, PicksRowsAndRefusesOthers) {
  const GatherRowsDesc desc{.dim = 20};
  Rows x = Rows::random(6, 20, 1);
  Rows y(3, 20, testing::kUntouched);
  std::vector<int32_t> rows = {5, 0, 5};
  const auto op = testing::prepare("gather_rows", desc, "cpu.gather_rows.plain");
  testing::run_op(*op, {x.operand(), ids_operand(rows)}, {y.operand()});
  EXPECT_TRUE(y.gaps_untouched());
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(y.at(0, i), x.at(5, i));
    EXPECT_EQ(y.at(1, i), x.at(0, i));
    EXPECT_EQ(y.at(2, i), x.at(5, i));
  }
  for (const int32_t bad : {-1, 6}) {
    rows[1] = bad;
    EXPECT_THROW(testing::run_op(*op, {x.operand(), ids_operand(rows)}, {y.operand()}),
                 InternalError);
  }
}

}  // namespace
}  // namespace kvern::kernels
