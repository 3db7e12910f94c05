// Elements of tensors: every field they may stand in, and sizes that must agree.
#include <bit>

#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

using ir::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

ir::Array read(const Msg& tensor) {
  return read_tensor_bytes(bytes_of(tensor.bytes), "t.pb").second;
}

std::string refused(const Msg& tensor, Code code = Code::kInvalidModel) {
  return refusal_of(code, [&] { read(tensor); });
}

std::string varints(const std::vector<int64_t>& values) {
  Msg out;
  for (const int64_t value : values) out.varint(static_cast<uint64_t>(value));
  return out.bytes;
}

TEST(OnnxTensor, RawDataOfEveryWidth) {
  EXPECT_THAT(read(floats("w", {1, 2}, {1.5F, -2})).as<float>(), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(read(ints("w", {}, {int64_t{1} << 40})).as<int64_t>(), ElementsAre(int64_t{1} << 40));
  const std::string halves = raw<uint16_t>({0x3c00, 0xc000});
  EXPECT_THAT(read(tensor_head("w", 10, {2}).text(9, halves)).to_f64(), ElementsAre(1.0, -2.0));
  const std::string brains = raw<uint16_t>({0x3f80, 0xc000});
  EXPECT_THAT(read(tensor_head("w", 16, {2}).text(9, brains)).to_f64(), ElementsAre(1.0, -2.0));
  EXPECT_THAT(read(tensor_head("w", 3, {2}).text(9, "\xff\x02")).to_i64(), ElementsAre(-1, 2));
}

TEST(OnnxTensor, NameAndOriginSayWhereItLies) {
  const Msg tensor = floats("weight", {2}, {1, 2});
  const auto [name, array] = read_tensor_bytes(bytes_of(tensor.bytes), "t.pb");
  EXPECT_EQ(name, "weight");
  ASSERT_TRUE(array.origin().has_value());
  EXPECT_EQ(array.origin()->name, "weight");
  EXPECT_EQ(array.origin()->file, 0);
  EXPECT_EQ(tensor.bytes.substr(array.origin()->offset, 8), raw<float>({1, 2}));
}

TEST(OnnxTensor, TypedFieldsPacked) {
  const Msg packed = tensor_head("w", 1, {2}).text(4, raw<float>({3, 4}));
  EXPECT_THAT(read(packed).as<float>(), ElementsAre(3.0F, 4.0F));
  EXPECT_TRUE(read(packed).origin().has_value());
  EXPECT_THAT(read(tensor_head("w", 11, {1}).text(10, raw<double>({0.25}))).to_f64(),
              ElementsAre(0.25));
  EXPECT_THAT(read(tensor_head("w", 7, {3}).text(7, varints({-1, 0, 300}))).to_i64(),
              ElementsAre(-1, 0, 300));
  EXPECT_THAT(read(tensor_head("w", 6, {2}).text(5, varints({-5, 6}))).to_i64(),
              ElementsAre(-5, 6));
  for (const auto& [type, values] : std::vector<std::pair<int, std::vector<int64_t>>>{
           {2, {0, 255}}, {3, {-128, 127}}, {4, {0, 65535}}, {5, {-32768, 1}}, {9, {1, 0}}}) {
    EXPECT_EQ(read(tensor_head("w", type, {2}).text(5, varints(values))).to_i64(), values) << type;
  }
  EXPECT_THAT(read(tensor_head("w", 10, {1}).text(5, varints({0x3c00}))).to_f64(),
              ElementsAre(1.0));
  EXPECT_THAT(read(tensor_head("w", 12, {1}).text(11, varints({4000000000}))).to_i64(),
              ElementsAre(4000000000));
}

TEST(OnnxTensor, TypedFieldsUnpackedAndInSeveralParts) {
  EXPECT_THAT(read(tensor_head("w", 1, {2}).f32(4, 3).f32(4, 4)).as<float>(),
              ElementsAre(3.0F, 4.0F));
  EXPECT_THAT(read(tensor_head("w", 7, {2}).num(7, 3).num(7, static_cast<uint64_t>(-4))).to_i64(),
              ElementsAre(3, -4));
  EXPECT_THAT(read(tensor_head("w", 2, {2}).num(5, 3).num(5, 200)).to_i64(), ElementsAre(3, 200));
  EXPECT_THAT(
      read(tensor_head("w", 7, {3}).text(7, varints({1, 2})).text(7, varints({3}))).to_i64(),
      ElementsAre(1, 2, 3));
  const Msg parts = tensor_head("w", 1, {2}).text(4, raw<float>({3})).text(4, raw<float>({4}));
  EXPECT_THAT(read(parts).as<float>(), ElementsAre(3.0F, 4.0F));
  EXPECT_THAT(refused(tensor_head("w", 7, {2}).num(7, 3).text(7, varints({3}))),
              HasSubstr("packed elements and others"));
}

TEST(OnnxTensor, FourBitElementsTakeAByteEach) {
  const Msg tensor = tensor_head("w", 22, {3}).text(9, "\x8f\x07");
  EXPECT_THAT(read(tensor).to_i64(), ElementsAre(-1, -8, 7));
  EXPECT_THAT(read(tensor_head("w", 21, {3}).text(9, "\x8f\x07")).to_i64(), ElementsAre(15, 8, 7));
  EXPECT_THAT(read(tensor_head("w", 21, {3}).text(5, varints({0x8f, 7}))).to_i64(),
              ElementsAre(15, 8, 7));
  const auto origin = read(tensor).origin();
  ASSERT_TRUE(origin.has_value());
  EXPECT_EQ(tensor.bytes.substr(origin->offset, 2), "\x8f\x07");
  EXPECT_THAT(refused(tensor_head("w", 22, {3}).text(9, "\x8f")), HasSubstr("want 2"));
}

TEST(OnnxTensor, BoolsAreZeroOrOne) {
  EXPECT_THAT(read(tensor_head("w", 9, {3}).text(9, std::string("\x02\x00\xff", 3))).as<uint8_t>(),
              ElementsAre(1, 0, 1));
}

TEST(OnnxTensor, EmptyTensorsHaveNoElements) {
  EXPECT_EQ(read(tensor_head("w", 1, {0, 5})).count(), 0);
  EXPECT_EQ(read(tensor_head("w", 7, {0}).text(9, "")).shape(), Shape{0});
}

TEST(OnnxTensor, ElementsAreAlignedWhereverTheFileHasThem) {
  for (size_t shift = 0; shift < 8; ++shift) {
    const Msg tensor = tensor_head(std::string(shift, 'n'), 7, {1}).text(9, raw<int64_t>({5}));
    const ir::Array array = read(tensor);
    EXPECT_EQ(std::bit_cast<uintptr_t>(array.bytes().data()) % 8, 0u);
    EXPECT_THAT(array.as<int64_t>(), ElementsAre(5));
  }
}

TEST(OnnxTensor, SizesMustAgree) {
  EXPECT_THAT(
      refused(tensor_head("w", 1, {3}).text(9, raw<float>({1, 2}))),
      HasSubstr("tensor 'w' (float, [3]) has 8 bytes in raw_data, its dims and type want 12"));
  EXPECT_THAT(refused(tensor_head("w", 1, {1}).text(9, raw<float>({1, 2}))), HasSubstr("want 4"));
  EXPECT_THAT(refused(tensor_head("w", 1, {2}).text(4, raw<float>({1}))), HasSubstr("float_data"));
  EXPECT_THAT(refused(tensor_head("w", 7, {2}).text(7, varints({1}))),
              HasSubstr("has 1 elements in int64_data"));
  EXPECT_THAT(refused(tensor_head("w", 7, {2}).text(7, varints({1, 2, 3}))), HasSubstr("want 2"));
  EXPECT_THAT(refused(tensor_head("w", 7, {2}).num(7, 1)), HasSubstr("want 2"));
  EXPECT_THAT(refused(tensor_head("w", 7, {1}).text(7, "\xff")), HasSubstr("has 0 elements"));
  EXPECT_THAT(
      refused(tensor_head("w", 7, {1}).text(7, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
      HasSubstr("cut short"));
  EXPECT_THAT(refused(tensor_head("w", 1, {2})), HasSubstr("has 0 elements in the file"));
  EXPECT_THAT(refused(tensor_head("w", 1, {1}).text(7, varints({1}))),
              HasSubstr("float_data or raw_data is their place"));
  EXPECT_THAT(refused(tensor_head("w", 1, {1}).text(9, "1234").text(9, "1234")),
              HasSubstr("both raw_data and raw_data"));
  EXPECT_THAT(refused(tensor_head("w", 1, {1}).text(9, "1234").text(4, "1234")),
              HasSubstr("both raw_data and float_data"));
}

TEST(OnnxTensor, ImpossibleDimsAreRefused) {
  EXPECT_THAT(refused(tensor_head("w", 1, {-1}).text(9, "1234")),
              HasSubstr("impossible dims [-1]"));
  EXPECT_THAT(refused(tensor_head("w", 1, {1 << 30, 1 << 30, 1 << 30}).text(9, "1234")),
              HasSubstr("impossible dims"));
  // The product is 2^64, which is 0 in 64 bits.
  const int64_t big = int64_t{1} << 32;
  EXPECT_THAT(refused(tensor_head("w", 1, {big, big})), HasSubstr("impossible dims"));
  EXPECT_THAT(refused(tensor_head("w", 1, {big}).text(9, "1234")), HasSubstr("want 17179869184"));
  EXPECT_THAT(refused(tensor_head("w", 1, std::vector<int64_t>(65, 1)).text(9, "1234")),
              HasSubstr("65 dims"));
}

TEST(OnnxTensor, TypesWithoutNumbersAreRefusedByName) {
  EXPECT_THAT(refused(tensor_head("w", 8, {1}).text(6, "text"), Code::kUnsupported),
              HasSubstr("tensor 'w' is of element type 8 (string)"));
  EXPECT_THAT(refused(tensor_head("w", 0, {1}).text(9, "1"), Code::kUnsupported),
              HasSubstr("(undefined)"));
  EXPECT_THAT(refused(tensor_head("w", 99, {1}).text(9, "1"), Code::kUnsupported),
              HasSubstr("element type 99"));
  EXPECT_THAT(refused(tensor_head("w", 1, {1}).sub(3, Msg().num(1, 0)), Code::kUnsupported),
              HasSubstr("segments"));
}

// Long names of a hostile file are cut, control characters do not reach a terminal.
TEST(OnnxTensor, NamesAreShownSafely) {
  const std::string message = refused(tensor_head("a\x1b[2J" + std::string(5000, 'x'), 1, {3}));
  EXPECT_LT(message.size(), 400u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace kvern::import::onnx
