#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

Array run_y(const std::string& text, int64_t opset = 21) {
  return run_tensor_graph(ir::parse_tensor_graph(text + "\noutput %y", opset), {}).at("y");
}

std::string refusal(const std::string& text) {
  try {
    run_y(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Longer than the stretch whose sums f32 holds exactly, with the largest products of both signs.
TEST(TensorQuant, IntegerProductsAreExactAtAnyDepth) {
  const Array y = run_y(R"(
    const %a uint8[1, 1001] = 255
    const %b int8[1001, 2] = -128
    const %za uint8[] = {0}
    const %zb int8[2] = {127, -127}
    %y = MatMulInteger(%a, %b, %za, %zb))");
  EXPECT_EQ(y.to_i64(), (std::vector<int64_t>{1001LL * 255 * -255, 1001LL * 255 * -1}));
}

TEST(TensorQuant, ZeroPointsOfRows) {
  const Array y = run_y(R"(
    const %a uint8[2, 3] = {1, 2, 3, 4, 5, 6}
    const %b uint8[3, 1] = {1, 1, 1}
    const %z uint8[2] = {1, 4}
    %y = MatMulInteger(%a, %b, %z))");
  EXPECT_EQ(y.to_i64(), (std::vector<int64_t>{3, 3}));
}

TEST(TensorQuant, QuantizeRoundsToEvenAndSaturates) {
  const std::string text = R"(
    const %x float[6] = {0.5, 1.5, 2.5, -1000, 1000, nan}
    const %s float[] = {1}
    const %z int8[] = {ZERO}
    %y = QuantizeLinear(%x, %s, %z))";
  std::string zero = text;
  EXPECT_EQ(run_y(zero.replace(zero.find("ZERO"), 4, "0")).to_i64(),
            (std::vector<int64_t>{0, 2, 2, -128, 127, 0}));
  std::string ten = text;
  EXPECT_EQ(run_y(ten.replace(ten.find("ZERO"), 4, "10")).to_i64(),
            (std::vector<int64_t>{10, 12, 12, -128, 127, 0}));
}

TEST(TensorQuant, BlocksAlongTheAxisMayEndShort) {
  const Array y = run_y(R"(
    const %x int4[5, 2] = {-8, 7, 1, 1, 1, 1, 1, 1, 1, 1}
    const %s float[3, 2] = {1, 2, 3, 4, 5, 6}
    %y = DequantizeLinear(%x, %s) {axis = 0, block_size = 2})");
  EXPECT_EQ(y.to_f32(), (std::vector<float>{-8, 14, 1, 2, 3, 4, 3, 4, 5, 6}));
}

TEST(TensorQuant, ScalesMustFit) {
  EXPECT_NE(refusal(R"(
    const %x int8[4, 2] = 1
    const %s float[3] = {1, 2, 3}
    %y = DequantizeLinear(%x, %s) {axis = 0})")
                .find("wanted [4]"),
            std::string::npos);
  EXPECT_NE(refusal(R"(
    const %x int8[4, 2] = 1
    const %s float[4] = 1
    %y = DequantizeLinear(%x, %s) {axis = 2})")
                .find("axis 2"),
            std::string::npos);
}

std::string n_bits(const char* codes, const char* attrs) {
  return fmt::format(R"(
    const %a float[1, 20] = 1
    const %b uint8[{}] = 136
    const %s float[2, 2] = {{1, 2, 3, 4}}
    %y = com.microsoft.MatMulNBits(%a, %b, %s) {{N = 2, bits = 4, {}}})",
                     codes, attrs);
}

TEST(TensorQuant, PackedWeightsAreCounted) {
  // Codes of 8 are zeros of the default zero point.
  EXPECT_EQ(run_y(n_bits("2, 2, 8", "K = 20, block_size = 16")).to_f32(),
            (std::vector<float>{0, 0}));
  EXPECT_NE(refusal(n_bits("2, 1, 8", "K = 20, block_size = 16")).find("32 elements are wanted"),
            std::string::npos);
  EXPECT_NE(refusal(n_bits("2, 2, 8", "K = 20, block_size = 24")).find("power of two"),
            std::string::npos);
  EXPECT_NE(refusal(n_bits("2, 2, 8", "K = -1, block_size = 16")).find("K is -1"),
            std::string::npos);
  EXPECT_NE(
      refusal(n_bits("2, 2, 8", "K = 20, block_size = 16, weight_prepacked = 1")).find("prepacked"),
      std::string::npos);
}

TEST(TensorQuant, GatheredRowsMayRepeat) {
  const Array y = run_y(R"(
    const %b uint8[3, 8] = {1,1,1,1,1,1,1,1, 2,2,2,2,2,2,2,2, 3,3,3,3,3,3,3,3}
    const %i int64[2] = {2, -2}
    const %s float[3, 1] = {1, 10, 100}
    %y = com.microsoft.GatherBlockQuantized(%b, %i, %s) {block_size = 16, quantize_axis = 1})");
  EXPECT_EQ(y.shape(), (Shape{2, 16}));
  EXPECT_EQ(y.to_f32()[0], (3 - 8) * 100);
  EXPECT_EQ(y.to_f32()[1], (0 - 8) * 100);
  EXPECT_EQ(y.to_f32()[16], (2 - 8) * 10);
}

}  // namespace
}  // namespace kvern::eval
