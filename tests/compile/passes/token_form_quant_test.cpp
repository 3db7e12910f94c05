// Quantised exports: codes stay codes of the file, numbers are those of the graph as it is written.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "compile/eval/eval.h"
#include "compile/eval/tensor/tensor_eval.h"
#include "compile/passes/token_form/token_form.h"
#include "compile/quantize/exact_format.h"
#include "kvern/error.h"
#include "tests/compile/passes/quant_graph.h"

namespace kvern::passes {
namespace {

using ir::ElementType;
using ::testing::HasSubstr;

class FileWeights final : public eval::WeightProvider {
 public:
  explicit FileWeights(const quantize::Files& files) : files_(files) {}
  eval::HostTensor load(const ir::Graph& graph, const ir::Weight& weight) override {
    return {weight.shape, quantize::materialize_f32(graph, weight, files_), {}};
  }

 private:
  const quantize::Files& files_;
};

// Converts and proves equal logits; gives the form.
TokenForm same_logits(const QuantGraph& from, const TokenFormOptions& options = {},
                      double tolerance = 2e-5) {
  TokenForm form = to_token_form(from.model, options);
  ir::verify(form.graph);
  const std::vector<int64_t> ids = {3, 17, 0, 23, 9};
  ir::Array array(ElementType::kInt64, {1, 5});
  eval::HostTensor ids32{{5}, {}, {}}, positions{{5}, {}, {}};
  for (size_t i = 0; i < ids.size(); ++i) {
    array.mutable_as<int64_t>()[i] = ids[i];
    ids32.i32.push_back(static_cast<int32_t>(ids[i]));
    positions.i32.push_back(static_cast<int32_t>(i));
  }
  const std::vector<float> wanted =
      eval::run_tensor_graph(from.model.graph, {{"input_ids", array}}).at("logits").to_f32();
  FileWeights weights(from.files);
  eval::KvState kv;
  const std::vector<float> got =
      eval::run(form.graph, {{"ids", ids32}, {"positions", positions}}, weights, kv)
          .at("logits")
          .f32;
  EXPECT_EQ(got.size(), wanted.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
    worst = std::max(worst, std::fabs(double{got[i]} - wanted[i]));
    largest = std::max(largest, std::fabs(double{wanted[i]}));
  }
  EXPECT_GT(largest, 1e-2);
  EXPECT_LT(worst, tolerance * (1 + largest));
  return form;
}

std::string refusal(const QuantGraph& from, const TokenFormOptions& options = {}) {
  try {
    static_cast<void>(to_token_form(from.model, options));
  } catch (const InternalError& error) {
    return fmt::format("our own bug: {}", error.what());
  } catch (const Error& error) {
    return error.what();
  }
  return "it was converted";
}

const ir::Weight& last_matrix(const TokenForm& form) {
  const ir::Weight* last = nullptr;
  for (const ir::Weight& weight : form.graph.weights) {
    if (weight.shape.size() == 2) last = &weight;
  }
  return *last;
}

QuantFormat kept(const TokenForm& form) {
  return quantize::exact_format(form.graph, last_matrix(form));
}

constexpr const char* kNBits =
    "%made = com.microsoft.MatMulNBits(%x, %b, %s{}) "
    "{{K = 32, N = 24, bits = {}, block_size = 16}} opset 1\n";

TEST(TokenFormQuant, NBitsOfFourBitsStayFourBits) {
  QuantGraph g;
  g.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255).floats("s", {24, 2}, 0.01f, 0.1f);
  g.graph(fmt::format(kNBits, "", 4));
  const TokenForm form = same_logits(g);
  EXPECT_EQ(kept(form).storage, DType::kI4);
  EXPECT_EQ(kept(form).group, 16);
  EXPECT_FALSE(kept(form).has_min) << "8 is the middle: no minimum is stored";
}

TEST(TokenFormQuant, NBitsOfEightAndTwoBits) {
  QuantGraph eight;
  eight.codes("b", ElementType::kUint8, {24, 2, 16}, 0, 255).floats("s", {48}, 0.01f, 0.1f);
  eight.graph(fmt::format(kNBits, "", 8));
  EXPECT_EQ(kept(same_logits(eight)).storage, DType::kI8);
  QuantGraph two;
  two.codes("b", ElementType::kUint8, {24, 2, 4}, 0, 255).floats("s", {48}, 0.01f, 0.1f);
  two.graph(fmt::format(kNBits, "", 2));
  EXPECT_EQ(kept(same_logits(two)).storage, DType::kI4);
}

TEST(TokenFormQuant, NBitsZeroPointsPackedAndFloat) {
  QuantGraph packed;
  packed.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255)
      .floats("s", {24, 2}, 0.01f, 0.1f)
      .codes("z", ElementType::kUint8, {24}, 0, 255);
  packed.graph(fmt::format(kNBits, ", %z", 4));
  const TokenForm form = same_logits(packed);
  EXPECT_EQ(kept(form).storage, DType::kI4);
  EXPECT_TRUE(kept(form).has_min);
  QuantGraph floats;
  floats.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255)
      .floats("s", {24, 2}, 0.01f, 0.1f)
      .floats("z", {24, 2}, 5, 9);
  floats.graph(fmt::format(kNBits, ", %z", 4));
  EXPECT_TRUE(kept(same_logits(floats)).has_min);
}

// 40 columns in blocks of 16: the third block of codes is filled up, and rows of zero points are.
TEST(TokenFormQuant, NBitsWithABlockThatIsFilledUpAndABias) {
  QuantGraph g;
  g.floats("w", {32, 40}, -1, 1)
      .codes("b", ElementType::kUint8, {24, 3, 8}, 0, 255)
      .floats("s", {24, 3}, 0.01f, 0.1f)
      .codes("z", ElementType::kUint8, {24, 2}, 0, 255)
      .floats("bias", {24}, -1, 1);
  g.graph(
      "%wide = MatMul(%x, %w)\n"
      "%made = com.microsoft.MatMulNBits(%wide, %b, %s, %z, _, %bias) "
      "{K = 40, N = 24, bits = 4, block_size = 16} opset 1\n");
  EXPECT_EQ(kept(same_logits(g)).storage, DType::kI4);
}

TEST(TokenFormQuant, ConstantsThatLieInNoFileAreWritten) {
  QuantGraph g;
  g.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255)
      .floats("s", {24, 2}, 0.01f, 0.1f)
      .codes("z", ElementType::kUint8, {24}, 0, 255)
      .without_file();
  g.graph(fmt::format(kNBits, ", %z", 4));
  EXPECT_FALSE(kept(same_logits(g)).quantised());
}

TEST(TokenFormQuant, NBitsRefusesWhatItDoesNotKnow) {
  QuantGraph prepacked;
  prepacked.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255).floats("s", {24, 2}, 0.01f, 0.1f);
  prepacked.graph(
      "%made = com.microsoft.MatMulNBits(%x, %b, %s) "
      "{K = 32, N = 24, bits = 4, block_size = 16, weight_prepacked = 1} opset 1\n");
  EXPECT_THAT(refusal(prepacked), HasSubstr("weight_prepacked"));
  QuantGraph wrong;
  wrong.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255).floats("s", {24, 3}, 0.01f, 0.1f);
  wrong.graph(fmt::format(kNBits, "", 4));
  EXPECT_THAT(refusal(wrong), HasSubstr("are not those of [24, 32] in blocks of 16"));
  QuantGraph huge;
  huge.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255).floats("s", {24, 2}, 0.01f, 0.1f);
  huge.graph(
      "%made = com.microsoft.MatMulNBits(%x, %b, %s) "
      "{K = 32, N = 24, bits = 4, block_size = 4611686018427387904} opset 1\n");
  EXPECT_THAT(refusal(huge), HasSubstr("no blocks of a matrix"));
  QuantGraph order;
  order.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255)
      .floats("s", {24, 2}, 0.01f, 0.1f)
      .constant("g", ir::Array::vector_i64(std::vector<int64_t>(32, 0)));
  order.graph(
      "%made = com.microsoft.MatMulNBits(%x, %b, %s, _, %g) "
      "{K = 32, N = 24, bits = 4, block_size = 16} opset 1\n");
  EXPECT_THAT(refusal(order), HasSubstr("g_idx"));
}

// One set of bytes: rows of an embedding and the head, as the GenAI builder ties them.
TEST(TokenFormQuant, TableAndHeadShareTheirBytes) {
  QuantGraph g;
  g.codes("b", ElementType::kUint8, {24, 2, 8}, 0, 255).floats("s", {24, 2}, 0.01f, 0.1f);
  ir::Array flat = ir::Array::vector_i64({24, 16});
  g.constant("flat", flat);
  g.graph(
      "%rows = Reshape(%b, %flat)\n"
      "%x = com.microsoft.GatherBlockQuantized(%rows, %input_ids, %s) "
      "{bits = 4, block_size = 16, gather_axis = 0, quantize_axis = 1} opset 1\n" +
          fmt::format(kNBits, "", 4),
      false);
  const TokenForm form = same_logits(g);
  EXPECT_EQ(form.graph.weights.size(), 1u);
  EXPECT_EQ(kept(form).storage, DType::kI4);
  EXPECT_EQ(form.vocabulary_size, 24);
}

struct Dequantize {
  const char* name;
  ElementType type;
  int low, high;
  Shape codes, scales;
  const char* attrs;   // of DequantizeLinear
  const char* weight;  // what is done to %d before the product
  DType storage;
};

class TokenFormDequantize : public ::testing::TestWithParam<Dequantize> {};

TEST_P(TokenFormDequantize, StaysCodes) {
  const Dequantize& p = GetParam();
  for (const bool zeros : {false, true}) {
    QuantGraph g;
    g.codes("q", p.type, p.codes, p.low, p.high).floats("s", p.scales, 0.01f, 0.1f);
    if (zeros) g.codes("z", p.type, p.scales, p.low, p.high);
    g.graph(fmt::format("%d = DequantizeLinear(%q, %s{}){}\n{}%made = MatMul(%x, %w)\n",
                        zeros ? ", %z" : "", p.attrs, p.weight));
    const TokenForm form = same_logits(g);
    EXPECT_EQ(kept(form).storage, p.storage);
  }
}

constexpr const char* kAsIs = "%w = Identity(%d)\n";
constexpr const char* kTurned = "%w = Transpose(%d) {perm = [1, 0]}\n";

INSTANTIATE_TEST_SUITE_P(
    Weights, TokenFormDequantize,
    ::testing::Values(
        Dequantize{"tensor", ElementType::kInt8, -128, 127, {32, 24}, {}, "", kAsIs, DType::kI8},
        Dequantize{"columns",
                   ElementType::kInt8,
                   -128,
                   127,
                   {32, 24},
                   {24},
                   " {axis = 1}",
                   kAsIs,
                   DType::kI8},
        Dequantize{"rows_turned",
                   ElementType::kUint8,
                   0,
                   255,
                   {24, 32},
                   {24},
                   " {axis = 0}",
                   kTurned,
                   DType::kI8},
        // Scales along k: no storage follows them.
        Dequantize{"inputs",
                   ElementType::kInt8,
                   -128,
                   127,
                   {32, 24},
                   {32},
                   " {axis = 0}",
                   kAsIs,
                   DType::kF32},
        Dequantize{"int4_columns",
                   ElementType::kInt4,
                   -8,
                   7,
                   {32, 24},
                   {24},
                   " {axis = -1}",
                   kAsIs,
                   DType::kI4},
        Dequantize{"uint4_blocks",
                   ElementType::kUint4,
                   0,
                   15,
                   {32, 24},
                   {2, 24},
                   " {axis = 0, block_size = 16}",
                   kAsIs,
                   DType::kI4},
        Dequantize{"int4_blocks_turned",
                   ElementType::kInt4,
                   -8,
                   7,
                   {24, 32},
                   {24, 2},
                   " {axis = 1, block_size = 16}",
                   kTurned,
                   DType::kI4}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(TokenFormQuant, TableOfCodesChosenThenDequantised) {
  QuantGraph g;
  g.codes("q", ElementType::kUint8, {24, 32}, 0, 255)
      .floats("s", {}, 0.01f, 0.02f)
      .codes("z", ElementType::kUint8, {}, 128, 128)
      .floats("w", {32, 24}, -1, 1);
  g.graph(
      "%rows = Gather(%q, %input_ids) {axis = 0}\n"
      "%x = DequantizeLinear(%rows, %s, %z)\n"
      "%made = MatMul(%x, %w)\n",
      false);
  const TokenForm form = same_logits(g);
  EXPECT_EQ(quantize::exact_format(form.graph, form.graph.weights[0]).storage, DType::kI8);
}

TEST(TokenFormQuant, PairsRoundActivations) {
  QuantGraph g;
  g.constant("xs", ir::Array::scalar_f32(0.01f))
      .codes("xz", ElementType::kUint8, {}, 100, 100)
      .constant("ys", ir::Array::scalar_f32(0.05f))
      .codes("yz", ElementType::kInt8, {}, 3, 3)
      .codes("q", ElementType::kInt8, {32, 24}, -128, 127)
      .floats("s", {24}, 0.01f, 0.02f);
  g.graph(
      "%xq = QuantizeLinear(%x, %xs, %xz)\n"
      "%xd = DequantizeLinear(%xq, %xs, %xz)\n"
      "%d = DequantizeLinear(%q, %s) {axis = 1}\n"
      "%y = MatMul(%xd, %d)\n"
      "%yq = QuantizeLinear(%y, %ys, %yz)\n"
      "%made = DequantizeLinear(%yq, %ys, %yz)\n");
  // Sums in another order may round to the next code.
  const TokenForm form = same_logits(g, {}, 0.051);
  EXPECT_EQ(kept(form).storage, DType::kI8);
}

TEST(TokenFormQuant, QLinearMatMulIsItsParts) {
  QuantGraph g;
  g.constant("xs", ir::Array::scalar_f32(0.01f))
      .codes("xz", ElementType::kUint8, {}, 100, 100)
      .constant("ys", ir::Array::scalar_f32(0.05f))
      .codes("yz", ElementType::kUint8, {}, 120, 120)
      .codes("q", ElementType::kUint8, {32, 24}, 0, 255)
      .constant("s", ir::Array::scalar_f32(0.01f))
      .codes("z", ElementType::kUint8, {}, 128, 128);
  g.graph(
      "%xq = QuantizeLinear(%x, %xs, %xz)\n"
      "%yq = QLinearMatMul(%xq, %xs, %xz, %q, %s, %z, %ys, %yz)\n"
      "%made = DequantizeLinear(%yq, %ys, %yz)\n");
  EXPECT_EQ(kept(same_logits(g, {}, 0.051)).storage, DType::kI8);
}

QuantGraph dynamic_int8() {
  QuantGraph g;
  g.codes("q", ElementType::kInt8, {32, 24}, -128, 127)
      .floats("s", {24}, 0.01f, 0.02f)
      .constant("z", ir::Array(ElementType::kInt8, {24}));
  g.graph(
      "%xq, %xs, %xz = DynamicQuantizeLinear(%x)\n"
      "%y = MatMulInteger(%xq, %q, %xz, %z)\n"
      "%yf = Cast(%y) {to = 1}\n"
      "%ys = Mul(%xs, %s)\n"
      "%made = Mul(%yf, %ys)\n");
  return g;
}

TEST(TokenFormQuant, DynamicInt8IsRefusedByName) {
  const std::string message = refusal(dynamic_int8());
  EXPECT_THAT(message, HasSubstr("DynamicQuantizeLinear"));
  EXPECT_THAT(message, HasSubstr("one scale over all tokens of the batch"));
  EXPECT_THAT(message, HasSubstr("--dynamic-quant per-token"));
}

TEST(TokenFormQuant, DynamicInt8PerTokenKeepsCodesAndTakesActivationsUnrounded) {
  TokenFormOptions options;
  options.per_token_dynamic_quant = true;
  const TokenForm form = same_logits(dynamic_int8(), options, 0.02);
  EXPECT_EQ(kept(form).storage, DType::kI8);
  EXPECT_EQ(kept(form).group, 0);
  EXPECT_FALSE(kept(form).has_min);
  EXPECT_THAT(form.notes, ::testing::Contains(HasSubstr("unrounded")));
  for (const ir::Node& node : form.graph.nodes()) EXPECT_NE(node.op->name, "scale");
}

// Products of integers as ONNX Runtime fuses them: the same weights.
TEST(TokenFormQuant, FusedDynamicProductsAreTheirParts) {
  TokenFormOptions options;
  options.per_token_dynamic_quant = true;
  for (const char* text :
       {"%made = com.microsoft.DynamicQuantizeMatMul(%x, %q, %s, %z, %bias) opset 1\n",
        "%xq, %xs, %xz = DynamicQuantizeLinear(%x)\n"
        "%made = com.microsoft.MatMulIntegerToFloat(%xq, %q, %xs, %s, %xz, %z, %bias) opset 1\n"}) {
    QuantGraph g;
    g.codes("q", ElementType::kInt8, {32, 24}, -128, 127)
        .floats("s", {24}, 0.01f, 0.02f)
        .constant("z", ir::Array(ElementType::kInt8, {24}))
        .floats("bias", {24}, -1, 1);
    g.graph(text);
    EXPECT_THAT(refusal(g), HasSubstr("one scale over all tokens of the batch"));
    EXPECT_EQ(kept(same_logits(g, options, 0.02)).storage, DType::kI8);
  }
}

TEST(TokenFormQuant, ProductsOfIntegersWithFixedScales) {
  QuantGraph g;
  g.constant("xs", ir::Array::scalar_f32(0.01f))
      .codes("xz", ElementType::kUint8, {}, 100, 100)
      .codes("q", ElementType::kInt8, {32, 24}, -128, 127)
      .floats("s", {24}, 0.01f, 0.02f);
  g.graph(
      "%xq = QuantizeLinear(%x, %xs, %xz)\n"
      "%y = MatMulInteger(%xq, %q, %xz)\n"
      "%yf = Cast(%y) {to = 1}\n"
      "%ys = Mul(%xs, %s)\n"
      "%made = Mul(%yf, %ys)\n");
  EXPECT_EQ(kept(same_logits(g)).storage, DType::kI8);
}

TEST(TokenFormQuant, ScalesPerFeatureOfActivationsAreRefused) {
  QuantGraph g;
  g.floats("xs", {32}, 0.01f, 0.02f).floats("w", {32, 24}, -1, 1);
  g.graph(
      "%xq = QuantizeLinear(%x, %xs) {axis = 2}\n"
      "%xd = DequantizeLinear(%xq, %xs) {axis = 2}\n"
      "%made = MatMul(%xd, %w)\n");
  EXPECT_THAT(refusal(g), HasSubstr("its scale is not one constant"));
}

}  // namespace
}  // namespace kvern::passes
