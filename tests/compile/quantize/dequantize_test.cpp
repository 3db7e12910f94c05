// Raw codes with scales and zero points: what MatMulNBits, DequantizeLinear and MatMulInteger keep.
#include "compile/quantize/dequantize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <random>

#include "compile/quantize/exact_format.h"
#include "compile/quantize/packed_bytes.h"
#include "compile/quantize/quantize_row.h"
#include "tensor/float_bits.h"
#include "tests/compile/quantize/source_file.h"

namespace kvern::quantize {
namespace {

using ::testing::HasSubstr;

// Integers of `bits` bits, low bits first; every row begins a byte.
std::string packed(const std::vector<int>& codes, int64_t cols, int bits) {
  std::string out;
  for (size_t begin = 0; begin < codes.size(); begin += static_cast<size_t>(cols)) {
    for (int64_t i = 0; i < cols; i += 8 / bits) {
      int byte = 0;
      for (int j = 0; j < 8 / bits && i + j < cols; ++j) {
        byte |= (codes[begin + static_cast<size_t>(i + j)] & ((1 << bits) - 1)) << (j * bits);
      }
      out += static_cast<char>(byte);
    }
  }
  return out;
}

std::vector<int> random_codes(int64_t count, int low, int high, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> out(static_cast<size_t>(count));
  for (int& code : out) code = std::uniform_int_distribution<int>(low, high)(random);
  return out;
}

// Scales that f16 holds, so that both types can be asked for them.
std::vector<float> random_scales(int64_t count) {
  std::mt19937 random(7);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& scale : out) {
    const float value = std::uniform_real_distribution<float>(0.01f, 0.2f)(random);
    scale = f16_to_f32(f32_to_f16(value));
  }
  return out;
}

std::string f16_bytes(const std::vector<float>& values) {
  std::string out;
  for (const float value : values) {
    const uint16_t bits = f32_to_f16(value);
    out.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return out;
}

struct Made {
  SourceFile file;
  ir::RecipeNode node{.op = ir::RecipeOp::kDequantize, .inputs = {0, 1, 2}};

  static ir::RecipeNode source(int32_t index) { return {.source = index}; }
  static ir::RecipeNode literal(double value) {
    return {.op = ir::RecipeOp::kLiteral, .values = {value}};
  }
  ir::Weight weight(Shape shape, ir::RecipeNode zeros) {
    ir::Weight out{"w", std::move(shape), {{source(0), source(1), std::move(zeros), node}}, {}};
    out.storage = exact_format(file.graph, out);
    file.graph.weights = {out};
    return out;
  }
};

// f32 as the recipe says, and what a plan holds, against `wanted` of every element.
void expect_values(Made& made, const ir::Weight& weight,
                   const std::function<double(int64_t, int64_t)>& wanted, double tolerance) {
  const Files files = made.file.files();
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1];
  const std::vector<float> values = materialize_f32(made.file.graph, weight, files);
  std::vector<std::byte> bytes(static_cast<size_t>(kernels::packed_bytes(weight.storage, n, k)));
  WeightNote note;
  write_packed(made.file.graph, weight, files, note, bytes);
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t i = 0; i < n; ++i) {
    kernels::unpack_row(weight.storage, n, k, bytes.data(), i, row.data());
    for (int64_t j = 0; j < k; ++j) {
      const double value = wanted(i, j);
      ASSERT_NEAR(values[static_cast<size_t>(i * k + j)], value, 1e-7 * std::fabs(value))
          << i << ", " << j;
      ASSERT_NEAR(row[static_cast<size_t>(j)], value, tolerance) << i << ", " << j;
    }
  }
}

// MatMulNBits: rows of K in blocks, the last one filled up; zero points packed row by row.
TEST(Dequantize, BlocksOfNibblesWithZeros) {
  constexpr int64_t kN = 5, kK = 70, kBlock = 32, kBlocks = 3, kPadded = 96;
  const std::vector<int> codes = random_codes(kN * kPadded, 0, 15, 1);
  const std::vector<int> zeros = random_codes(kN * kBlocks, 0, 15, 2);
  const std::vector<float> scales = random_scales(kN * kBlocks);
  Made made;
  made.file.add("B", ir::SourceType::kU4, {kN, kPadded}, packed(codes, kPadded, 4));
  made.file.add_f32("s", {kN * kBlocks}, scales);
  made.file.add("z", ir::SourceType::kU4, {kN, 4}, packed(zeros, kBlocks, 4));
  made.node.row_block = 1;
  made.node.col_block = kBlock;
  made.node.num_cols = kK;
  const ir::Weight weight = made.weight({kN, kK}, Made::source(2));
  EXPECT_EQ(weight.storage, (QuantFormat{DType::kI4, 32, DType::kF32, true}));
  const auto wanted = [&](int64_t i, int64_t j) {
    const auto block = static_cast<size_t>(i * kBlocks + j / kBlock);
    return double{scales[block]} * (codes[static_cast<size_t>(i * kPadded + j)] - zeros[block]);
  };
  expect_values(made, weight, wanted, 1e-6);
}

// The producers' default: a zero point of 8, and f16 scales; nothing is rounded.
TEST(Dequantize, NibblesAroundTheMiddleAreExactWithoutMinimum) {
  for (const int64_t block : {int64_t{16}, int64_t{64}, int64_t{256}, int64_t{512}}) {
    constexpr int64_t kN = 3, kK = 512;
    const int64_t blocks = kK / block;
    const std::vector<int> codes = random_codes(kN * kK, 0, 15, 1);
    const std::vector<float> scales = random_scales(kN * blocks);
    Made made;
    made.file.add("B", ir::SourceType::kU4, {kN, kK}, packed(codes, kK, 4));
    made.file.add("s", ir::SourceType::kF16, {kN, blocks}, f16_bytes(scales));
    made.node.row_block = 1;
    made.node.col_block = block;
    made.node.num_cols = kK;
    const ir::Weight weight = made.weight({kN, kK}, Made::literal(8));
    const int32_t group = block == 512 ? 0 : static_cast<int32_t>(std::min<int64_t>(block, 128));
    EXPECT_EQ(weight.storage, (QuantFormat{DType::kI4, group, DType::kF16, false}));
    const auto wanted = [&](int64_t i, int64_t j) {
      return double{scales[static_cast<size_t>(i * blocks + j / block)]} *
             (codes[static_cast<size_t>(i * kK + j)] - 8);
    };
    expect_values(made, weight, wanted, 0);
  }
}

TEST(Dequantize, TwoAndEightBits) {
  constexpr int64_t kN = 4, kK = 64, kBlock = 32;
  for (const auto& [type, bits, zero] :
       {std::tuple{ir::SourceType::kU2, 2, 2}, std::tuple{ir::SourceType::kU8, 8, 128},
        std::tuple{ir::SourceType::kU8, 8, 100}, std::tuple{ir::SourceType::kU2, 2, 1}}) {
    SCOPED_TRACE(fmt::format("{} bits around {}", bits, zero));
    const std::vector<int> codes = random_codes(kN * kK, 0, (1 << bits) - 1, 1);
    const std::vector<float> scales = random_scales(kN * 2);
    Made made;
    made.file.add("B", type, {kN, kK}, packed(codes, kK, bits));
    made.file.add_f32("s", {kN, 2}, scales);
    made.node.row_block = 1;
    made.node.col_block = kBlock;
    made.node.num_cols = kK;
    const ir::Weight weight = made.weight({kN, kK}, Made::literal(zero));
    const bool middle = zero == 1 << (bits - 1);
    const DType storage = bits == 8 ? DType::kI8 : DType::kI4;
    EXPECT_EQ(weight.storage, (QuantFormat{storage, 32, DType::kF32, !middle}));
    const auto wanted = [&, zero = zero](int64_t i, int64_t j) {
      return double{scales[static_cast<size_t>(i * 2 + j / kBlock)]} *
             (codes[static_cast<size_t>(i * kK + j)] - zero);
    };
    expect_values(made, weight, wanted, middle ? 0 : 3e-6);
  }
}

// MatMulInteger and Q/DQ: [K, N], one scale for each column, or for all.
TEST(Dequantize, ColumnsBecomeRows) {
  constexpr int64_t kN = 6, kK = 33;
  for (const bool each : {true, false}) {
    const std::vector<int> codes = random_codes(kK * kN, -128, 127, 1);
    const std::vector<float> scales = random_scales(each ? kN : 1);
    Made made;
    made.file.add("B", ir::SourceType::kI8, {kK, kN}, packed(codes, kN, 8));
    made.file.add_f32("s", {each ? kN : 1}, scales);
    made.node.col_block = each ? 1 : 0;
    made.node.num_cols = kN;
    made.node.transposed = true;
    const ir::Weight weight = made.weight({kN, kK}, Made::literal(0));
    EXPECT_EQ(weight.storage, (QuantFormat{DType::kI8, 0, DType::kF32, false}));
    const auto wanted = [&](int64_t i, int64_t j) {
      return double{scales[each ? static_cast<size_t>(i) : 0]} *
             codes[static_cast<size_t>(j * kN + i)];
    };
    expect_values(made, weight, wanted, 1e-7 * 128);
  }
}

// DequantizeLinear with blocks along K of [K, N], zeros of the codes' own type.
TEST(Dequantize, SignedNibblesInBlocksAlongColumns) {
  constexpr int64_t kN = 6, kK = 48, kBlock = 16, kBlocks = 3;
  const std::vector<int> codes = random_codes(kK * kN, -8, 7, 1);
  const std::vector<int> zeros = random_codes(kBlocks * kN, -8, 7, 2);
  const std::vector<float> scales = random_scales(kBlocks * kN);
  Made made;
  made.file.add("B", ir::SourceType::kI4, {kK, kN}, packed(codes, kN, 4));
  made.file.add_f32("s", {kBlocks, kN}, scales);
  made.file.add("z", ir::SourceType::kI4, {kBlocks, kN}, packed(zeros, kN, 4));
  made.node.row_block = kBlock;
  made.node.col_block = 1;
  made.node.num_cols = kN;
  made.node.transposed = true;
  const ir::Weight weight = made.weight({kN, kK}, Made::source(2));
  EXPECT_EQ(weight.storage, (QuantFormat{DType::kI4, 16, DType::kF32, true}));
  const auto wanted = [&](int64_t i, int64_t j) {
    const auto block = static_cast<size_t>(j / kBlock * kN + i);
    return double{scales[block]} * (codes[static_cast<size_t>(j * kN + i)] - zeros[block]);
  };
  expect_values(made, weight, wanted, 1e-6);
}

// A scale for every input is no group of a row: the values themselves are kept.
TEST(Dequantize, ScalesAlongTheRowAreAppliedAtOnce) {
  Made made;
  made.file.add("B", ir::SourceType::kU8, {2, 3}, std::string("\x01\x02\x03\x04\x05\xff", 6));
  made.file.add_f32("s", {3}, {1, 10, 100});
  made.node.col_block = 1;
  made.node.num_cols = 3;
  const ir::Weight weight = made.weight({2, 3}, Made::literal(1));
  EXPECT_EQ(weight.storage, QuantFormat{});
  EXPECT_EQ(materialize_f32(made.file.graph, weight, made.file.files()),
            (std::vector<float>{0, 10, 200, 3, 40, 25400}));
}

// Rows move as any others do, and what one linear joins is kept in codes.
TEST(Dequantize, RowsMoveAndJoin) {
  Made made;
  made.file.add("B", ir::SourceType::kI8, {2, 3}, std::string("\x01\x02\x03\x04\x05\x06", 6));
  made.file.add_f32("s", {2}, {1, 10});
  made.node.row_block = 1;
  made.node.num_cols = 3;
  ir::Weight weight = made.weight({2, 3}, Made::literal(0));
  ir::RecipeNode pick{.op = ir::RecipeOp::kPickRows, .inputs = {3}, .values = {1, 0, 1}};
  weight.recipe.nodes.push_back(pick);
  weight.shape = {3, 3};
  EXPECT_EQ(materialize_f32(made.file.graph, weight, made.file.files()),
            (std::vector<float>{40, 50, 60, 1, 2, 3, 40, 50, 60}));
  EXPECT_EQ(exact_format(made.file.graph, weight),
            (QuantFormat{DType::kI8, 0, DType::kF32, false}));
  EXPECT_EQ(source_names(made.file.graph, weight), "I8");
  EXPECT_EQ(join({DType::kI8, 0, DType::kF32, false}, {DType::kI4, 32, DType::kF16, false}),
            (QuantFormat{DType::kI8, 32, DType::kF32, false}));
  // A scale of a row is repeated for groups of it.
  weight.storage = {DType::kI8, 16, DType::kF32, false};
  const kernels::CodedRows stored = materialize(made.file.graph, weight, made.file.files());
  EXPECT_EQ(stored.scales, (std::vector<float>{10, 1, 10}));
}

std::string refusal(const std::function<void(Made&)>& change, ir::RecipeNode zeros) {
  Made made;
  made.file.add("B", ir::SourceType::kU4, {2, 4}, "1234");
  made.file.add_f32("s", {2, 2}, {1, 2, 3, 4});
  made.node.row_block = 1;
  made.node.col_block = 2;
  made.node.num_cols = 4;
  change(made);
  const ir::Weight weight{
      "w", {2, 4}, {{Made::source(0), Made::source(1), std::move(zeros), made.node}}, {}};
  try {
    ir::recipe_shape(weight.recipe, made.file.graph.sources, weight.shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Dequantize, RefusesWhatDoesNotFit) {
  const auto fine = [](Made&) {};
  EXPECT_EQ(refusal(fine, Made::literal(8)), "");
  EXPECT_THAT(refusal([](Made& m) { m.node.num_cols = 5; }, Made::literal(8)),
              HasSubstr("have no 5 columns"));
  EXPECT_THAT(refusal([](Made& m) { m.node.col_block = 1; }, Made::literal(8)),
              HasSubstr("scales of [2, 2] are not one for each of 2 x 4 blocks"));
  EXPECT_THAT(refusal([](Made& m) { m.node.row_block = -1; }, Made::literal(8)),
              HasSubstr("blocks of -1"));
  EXPECT_THAT(refusal([](Made& m) { m.file.graph.sources[0].type = ir::SourceType::kF32; },
                      Made::literal(8)),
              HasSubstr("'B' of F32 stands where another type"));
  EXPECT_THAT(refusal([](Made& m) { m.file.graph.sources[1].type = ir::SourceType::kU8; },
                      Made::literal(8)),
              HasSubstr("'s' of U8 stands where another type"));
  ir::Recipe alone{{Made::source(0)}};
  Made made;
  made.file.add("B", ir::SourceType::kU4, {2, 4}, "1234");
  EXPECT_THROW(ir::recipe_shape(alone, made.file.graph.sources, {2, 4}), Error);
}

}  // namespace
}  // namespace kvern::quantize
