// Recipes, rounding and storage choices on small weights of known values.
#include "compile/quantize/materialize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compile/quantize/exact_format.h"
#include "compile/quantize/quantize_row.h"
#include "kvern/error.h"
#include "tensor/float_bits.h"
#include "tests/compile/quantize/source_file.h"

namespace kvern::quantize {
namespace {

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

ir::RecipeNode node(ir::RecipeOp op, std::vector<int32_t> inputs, int32_t heads = 0) {
  ir::RecipeNode out;
  out.op = op;
  out.inputs = std::move(inputs);
  out.heads = heads;
  return out;
}

ir::RecipeNode leaf(int32_t source) {
  ir::RecipeNode out;
  out.source = source;
  return out;
}

TEST(Materialize, ConcatAndUnpermuteMoveRows) {
  SourceFile source;
  // Row r of `q` holds r everywhere; two heads of four rows each.
  std::vector<float> q;
  for (int row = 0; row < 8; ++row) q.insert(q.end(), 3, static_cast<float>(row));
  const int32_t q_source = source.add_f32("q", {8, 3}, q);
  const int32_t v_source = source.add_f32("v", {1, 3}, {100, 101, 102});
  ir::Weight weight{"qv", {9, 3}, {}, {}};
  weight.recipe.nodes = {leaf(q_source), node(ir::RecipeOp::kUnpermute, {0}, 2), leaf(v_source),
                         node(ir::RecipeOp::kConcatRows, {1, 2})};
  source.graph.weights.push_back(weight);
  const std::vector<float> got = materialize_f32(source.graph, weight, source.files());
  std::vector<float> first_of_row;
  for (size_t row = 0; row < 9; ++row) first_of_row.push_back(got[row * 3]);
  // The file's order is (0, d/2, 1, d/2 + 1): element i of the first half lies at row 2i.
  EXPECT_EQ(first_of_row, (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7, 100}));
}

TEST(Materialize, VectorsConcatenateByElement) {
  SourceFile source;
  const int32_t a = source.add_f32("a", {4}, {0, 1, 2, 3});
  const int32_t b = source.add_f32("b", {2}, {10, 11});
  ir::Weight weight{"bias", {6}, {}, {}};
  weight.recipe.nodes = {leaf(a), node(ir::RecipeOp::kUnpermute, {0}, 1), leaf(b),
                         node(ir::RecipeOp::kConcatRows, {1, 2})};
  source.graph.weights.push_back(weight);
  const Files files = source.files();
  EXPECT_EQ(materialize_f32(source.graph, weight, files), (std::vector<float>{0, 2, 1, 3, 10, 11}));
  const kernels::CodedRows stored = materialize(source.graph, weight, files);
  EXPECT_EQ(stored.n, 1);
  EXPECT_EQ(stored.k, 6);
  EXPECT_EQ(stored.codes.size(), 24u);
}

// A fused matrix of 2 heads, 3 parts and 2 rows a head; element (r, c) is 10 r + c.
int32_t add_fused(SourceFile& source) {
  std::vector<float> values;
  for (int row = 0; row < 12; ++row) {
    for (int col = 0; col < 3; ++col) values.push_back(static_cast<float>(10 * row + col));
  }
  return source.add_f32("fused", {12, 3}, values);
}

std::vector<float> made(SourceFile& source, const Shape& shape, std::vector<ir::RecipeNode> nodes) {
  const ir::Weight weight{"w", shape, {std::move(nodes)}, {}};
  const Files files = source.files();
  const std::vector<float> out = materialize_f32(source.graph, weight, files);
  // What is stored as f32 is what is read.
  const kernels::CodedRows stored = materialize(source.graph, weight, files);
  EXPECT_EQ(std::memcmp(stored.codes.data(), out.data(), out.size() * sizeof(float)), 0);
  return out;
}

TEST(Materialize, PartsOfFusedTensors) {
  SourceFile source;
  const int32_t fused = add_fused(source);
  ir::RecipeNode slice = node(ir::RecipeOp::kSliceRows, {0});
  slice.first_row = 4;
  slice.num_rows = 2;
  EXPECT_EQ(made(source, {2, 3}, {leaf(fused), slice}),
            (std::vector<float>{40, 41, 42, 50, 51, 52}));
  ir::RecipeNode part = node(ir::RecipeOp::kHeadPart, {0}, 2);
  part.parts = 3;
  part.part = 1;
  EXPECT_EQ(made(source, {4, 3}, {leaf(fused), part}),
            (std::vector<float>{20, 21, 22, 30, 31, 32, 80, 81, 82, 90, 91, 92}));
  const int32_t bias = source.add_f32("bias", {4}, {1, 2, 3, 4});
  slice.first_row = 1;
  EXPECT_EQ(made(source, {2}, {leaf(bias), slice}), (std::vector<float>{2, 3}));
}

// The source is decoded whole, whatever part of it the vector is.
TEST(Materialize, PartsOfAQuantisedVector) {
  SourceFile source;
  std::string blocks;
  for (int block = 0; block < 64; ++block) {
    blocks += std::string("\x00\x3c", 2) + std::string(32, static_cast<char>(block));  // scale 1
  }
  const int32_t bias = source.add("bias", ir::SourceType::kQ8_0, {2048}, blocks);
  ir::RecipeNode slice = node(ir::RecipeOp::kSliceRows, {0});
  slice.first_row = 1024;
  slice.num_rows = 2;
  EXPECT_EQ(made(source, {2}, {leaf(bias), slice}), (std::vector<float>{32, 32}));
}

TEST(Materialize, TransposedTensorsAndTheirParts) {
  SourceFile source;
  const int32_t fused = add_fused(source);
  ir::RecipeNode slice = node(ir::RecipeOp::kSliceRows, {1});
  slice.first_row = 2;
  slice.num_rows = 1;
  EXPECT_EQ(made(source, {1, 12}, {leaf(fused), node(ir::RecipeOp::kTranspose, {0}), slice}),
            (std::vector<float>{2, 12, 22, 32, 42, 52, 62, 72, 82, 92, 102, 112}));
  const uint16_t halves[] = {f32_to_bf16(1), f32_to_bf16(2), f32_to_bf16(3), f32_to_bf16(4)};
  const int32_t small = source.add("small", ir::SourceType::kBf16, {2, 2},
                                   std::string(reinterpret_cast<const char*>(halves), 8));
  EXPECT_EQ(made(source, {2, 2}, {leaf(small), node(ir::RecipeOp::kTranspose, {0})}),
            (std::vector<float>{1, 3, 2, 4}));
}

TEST(Materialize, OffsetsAreAddedToVectors) {
  SourceFile source;
  const int32_t gamma = source.add_f32("gamma", {3}, {-0.5f, 0, 0.25f});
  ir::RecipeNode offset = node(ir::RecipeOp::kOffset, {0});
  offset.values = {1};
  EXPECT_EQ(made(source, {3}, {leaf(gamma), offset}), (std::vector<float>{0.5f, 1, 1.25f}));
}

TEST(Materialize, LiteralsHoldTheirValues) {
  SourceFile source;
  ir::RecipeNode literal;
  literal.op = ir::RecipeOp::kLiteral;
  literal.values = {1, 0.5, 0.25, 0.125};
  const ir::Weight matrix{"m", {2, 2}, {{literal}}, {}};
  const ir::Weight vector{"v", {4}, {{literal}}, {}};
  const Files files;
  EXPECT_EQ(materialize_f32(source.graph, matrix, files),
            (std::vector<float>{1, 0.5f, 0.25f, 0.125f}));
  EXPECT_EQ(materialize_f32(source.graph, vector, files),
            (std::vector<float>{1, 0.5f, 0.25f, 0.125f}));
}

TEST(Materialize, FloatStoragesRoundToNearestEven) {
  SourceFile source;
  ir::Weight& weight = source.weight(source.add_f32("w", {1, 3}, {1.00390625f, 1.01171875f, -3}));
  weight.storage = {.storage = DType::kBf16};
  const kernels::CodedRows stored = materialize(source.graph, weight, source.files());
  std::vector<float> got(3);
  dequantize_row(stored, 0, got.data());
  EXPECT_EQ(got, (std::vector<float>{1.0f, 1.015625f, -3}));  // both ties, one each way
}

TEST(Materialize, IntegerStoragesAreWithinHalfAStep) {
  const std::vector<float> values = random_values(size_t{4} * 70, 1);  // the last group is short
  for (const QuantFormat& format : {QuantFormat{DType::kI8, 32, DType::kF16, false},
                                    QuantFormat{DType::kI8, 32, DType::kF32, true},
                                    QuantFormat{DType::kI4, 32, DType::kF16, true},
                                    QuantFormat{DType::kI4, 16, DType::kF16, false},
                                    QuantFormat{DType::kI8, 0, DType::kF32, false}}) {
    SourceFile source;
    ir::Weight& weight = source.weight(source.add_f32("w", {4, 70}, values));
    weight.storage = format;
    const kernels::CodedRows stored = materialize(source.graph, weight, source.files());
    ASSERT_EQ(stored.scales.size(), static_cast<size_t>(4 * format.groups(70)));
    std::vector<float> got(70);
    for (int64_t row = 0; row < 4; ++row) {
      dequantize_row(stored, row, got.data());
      for (int64_t i = 0; i < 70; ++i) {
        const int64_t group = format.group == 0 ? 0 : i / format.group;
        const float step =
            std::fabs(stored.scales[static_cast<size_t>(row * format.groups(70) + group)]);
        // Rounding scale and minimum to f16 may push an end out by a little more than half a step;
        // i4 without a minimum cuts at code 7 off what mirrors the extreme.
        const float bound = format.storage == DType::kI4 && !format.has_min ? 1.01f : 0.52f;
        EXPECT_LE(
            std::fabs(got[static_cast<size_t>(i)] - values[static_cast<size_t>(row * 70 + i)]),
            step * bound + 4e-3f * (format.scale == DType::kF16 ? 1.0f : 0.0f))
            << to_string(format);
      }
    }
    for (const float scale : stored.scales) {
      EXPECT_EQ(round_scale(scale, format.scale), scale) << to_string(format);
    }
  }
}

TEST(Materialize, NotANumberIsRefusedByName) {
  SourceFile source;
  ir::Weight& weight =
      source.weight(source.add_f32("blk.0.ffn_up.weight", {1, 2}, {1, std::nanf("")}));
  weight.storage = {DType::kI8, 32, DType::kF16, false};
  try {
    materialize(source.graph, weight, source.files());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("blk.0.ffn_up.weight"), std::string::npos);
  }
}

TEST(Materialize, ASourceOutsideItsFileIsRefused) {
  SourceFile source;
  ir::Weight& weight = source.weight(source.add_f32("w", {1, 2}, {1, 2}));
  source.graph.sources[0].offset = UINT64_MAX - 3;
  const Files files = source.files();
  EXPECT_THROW(materialize(source.graph, weight, files), Error);
  source.graph.sources[0].offset = 0;
  source.graph.sources[0].file = 1;
  EXPECT_THROW(materialize(source.graph, weight, files), Error);
  source.graph.sources[0].file = 0;
  EXPECT_NO_THROW(materialize(source.graph, weight, files));
}

TEST(Apply, ChoicesAndTheirNotes) {
  SourceFile source;
  source.weight(source.add_f32("gamma", {32}, random_values(32, 2)));
  source.weight(source.add("q4_1", ir::SourceType::kQ4_1, {1, 32}, std::string(20, '\1')));
  source.weight(source.add("q4_0", ir::SourceType::kQ4_0, {1, 32}, std::string(18, '\1')));
  source.weight(source.add("q6_k", ir::SourceType::kQ6_K, {1, 256}, std::string(210, '\1')));
  source.weight(source.add("q4_k", ir::SourceType::kQ4_K, {1, 256}, std::string(144, '\1')));
  const auto to = [&](WeightChoice choice) {
    std::string out;
    for (const WeightNote& note : apply(source.graph, choice)) {
      out += note.to + (note.exact ? " exact; " : " rounded; ");
    }
    return out;
  };
  EXPECT_EQ(to(WeightChoice::kKeep),
            "f32 exact; i4 g32 f16 min exact; i4 g32 f16 exact; i8 g16 f32 exact; "
            "i4 g32 f32 min exact; ");
  EXPECT_EQ(to(WeightChoice::kInt8),
            "f32 exact; i8 g32 f16 rounded; i8 g32 f16 exact; i8 g32 f16 rounded; "
            "i8 g32 f16 rounded; ");
  EXPECT_EQ(to(WeightChoice::kInt4),
            "f32 exact; i4 g32 f16 min exact; i4 g32 f16 exact; i4 g32 f16 min rounded; "
            "i4 g32 f16 min rounded; ");
  EXPECT_EQ(to(WeightChoice::kBf16),
            "f32 exact; bf16 rounded; bf16 rounded; bf16 rounded; bf16 rounded; ");
  EXPECT_EQ(to(WeightChoice::kF32), "f32 exact; f32 exact; f32 exact; f32 exact; f32 exact; ");
}

TEST(Apply, Int4KeepsTheCodesOfK4AndRoundsScalesOnly) {
  SourceFile source;
  std::string block(144, '\x5a');
  const uint16_t d = f32_to_f16(0.0123f);
  const uint16_t d_min = f32_to_f16(0.0377f);
  std::memcpy(block.data(), &d, 2);
  std::memcpy(block.data() + 2, &d_min, 2);
  ir::Weight& weight = source.weight(source.add("w", ir::SourceType::kQ4_K, {1, 256}, block));
  const Files files = source.files();
  apply(source.graph, WeightChoice::kKeep);
  const kernels::CodedRows kept = materialize(source.graph, weight, files);
  std::vector<WeightNote> notes = apply(source.graph, WeightChoice::kInt4);
  const kernels::CodedRows rounded = materialize(source.graph, weight, files);
  EXPECT_EQ(kept.codes, rounded.codes);
  EXPECT_NE(kept.scales, rounded.scales);
  for (size_t i = 0; i < kept.scales.size(); ++i) {
    EXPECT_EQ(rounded.scales[i], f16_to_f32(f32_to_f16(kept.scales[i])));
    EXPECT_EQ(rounded.minima[i], f16_to_f32(f32_to_f16(kept.minima[i])));
  }
  measure_error(source.graph, weight, files, rounded, notes[0]);
  EXPECT_GT(notes[0].max_error, 0);
  EXPECT_LT(notes[0].rms_error, 1e-3);
}

TEST(Apply, ErrorFiguresAreThoseOfTheValues) {
  SourceFile source;
  ir::Weight& weight = source.weight(source.add_f32("w", {1, 2}, {3, 1.00390625f}));
  const Files files = source.files();
  std::vector<WeightNote> notes = apply(source.graph, WeightChoice::kBf16);
  measure_error(source.graph, weight, files, materialize(source.graph, weight, files), notes[0]);
  EXPECT_DOUBLE_EQ(notes[0].max_error, 0.00390625);
  EXPECT_NEAR(notes[0].rms_error, 0.00390625 / std::sqrt(9 + 1.00390625 * 1.00390625), 1e-12);
}

}  // namespace
}  // namespace kvern::quantize
