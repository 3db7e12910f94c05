// The GGUF container: what is read, and that every lie in it is found and named.
#include "compile/import/gguf/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvern/error.h"
#include "tests/compile/import/gguf_builder.h"

namespace kvern::import::gguf {
namespace {

using testing::HasSubstr;

// "invalid_model: <message>", or "ok".
std::string outcome(const std::string& bytes) {
  try {
    read(as_bytes(bytes), "x.gguf");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.gguf"));
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "ok";
}

std::string replaced(std::string bytes, size_t at, const std::string& with) {
  return bytes.replace(at, with.size(), with);
}

TEST(GgufReader, ReadsBothVersions) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder builder = one_layer_llama();
    builder.version = version;
    const std::string bytes = builder.bytes();
    const File file = read(as_bytes(bytes), "x.gguf");
    EXPECT_EQ(file.version, version);
    ASSERT_EQ(file.tensors.size(), 11u);
    EXPECT_EQ(file.tensors[0].name, "token_embd.weight");
    EXPECT_EQ(file.tensors[0].shape, (Shape{6, 8}));  // rows outermost
    EXPECT_EQ(file.tensors[0].bytes, 6u * 8 * 4);
    EXPECT_EQ(file.tensors.back().offset + file.tensors.back().bytes, bytes.size());
    EXPECT_EQ(file.metadata.keys().size(), 14u);
  }
}

TEST(GgufReader, AlignmentOfTheFileIsUsed) {
  GgufBuilder builder = one_layer_llama();
  builder.alignment = 256;
  builder.count("general.alignment", 256);
  const std::string bytes = builder.bytes();
  const File file = read(as_bytes(bytes), "x.gguf");
  for (const ir::WeightSource& tensor : file.tensors) EXPECT_EQ(tensor.offset % 256, 0u);
  for (const uint32_t bad : {0u, 3u, 48u, 1u << 17}) {
    builder.count("general.alignment", bad);
    EXPECT_THAT(outcome(builder.bytes()), HasSubstr("invalid_model")) << bad;
  }
}

TEST(GgufReader, OtherVersionsAndByteOrdersAreNamed) {
  GgufBuilder builder = one_layer_llama();
  builder.version = 1;
  EXPECT_THAT(outcome(builder.bytes()),
              HasSubstr("unsupported: gguf: file 'x.gguf': is GGUF version 1"));
  builder.version = 4;
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("version 4"));
  builder.version = 3u << 24;
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("big-endian"));
  builder.magic = 0x12345678;
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("invalid_model"));
}

TEST(GgufReader, EveryPrefixIsRefused) {
  const std::string bytes = one_layer_llama().bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THAT(outcome(bytes.substr(0, length)), HasSubstr("invalid_model")) << length;
  }
}

TEST(GgufReader, CountsAreBoundedByTheBytesThatFollow) {
  const std::string bytes = one_layer_llama().bytes();
  for (const uint64_t lie : {uint64_t{1} << 20, uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_THAT(outcome(replaced(bytes, 8, GgufBuilder::raw(lie))), HasSubstr("number of tensors"));
    EXPECT_THAT(outcome(replaced(bytes, 16, GgufBuilder::raw(lie))),
                HasSubstr("number of metadata entries"));
    GgufBuilder builder = one_layer_llama();
    builder.set("liar", ValueType::kArray, GgufBuilder::raw<uint32_t>(8) + GgufBuilder::raw(lie));
    EXPECT_THAT(outcome(builder.bytes()), HasSubstr("array's length"));
    builder = one_layer_llama();
    builder.set("liar", ValueType::kString, GgufBuilder::raw(lie));
    EXPECT_THAT(outcome(builder.bytes()), HasSubstr("metadata string"));
  }
}

TEST(GgufReader, DimensionsThatOverflowAreRefused) {
  const std::vector<std::vector<uint64_t>> bad = {
      {}, {0}, {8, 0}, {1, 1, 1, 1, 1}, {UINT64_MAX, 8}, {uint64_t{1} << 32, uint64_t{1} << 32}};
  for (const std::vector<uint64_t>& dims : bad) {
    GgufBuilder builder = one_layer_llama();
    builder.tensor("output_norm.weight").dims = dims;
    EXPECT_THAT(outcome(builder.bytes()), HasSubstr("invalid_model: gguf: file 'x.gguf': tensor"));
  }
}

TEST(GgufReader, TensorsOutsideTheFileAreRefused) {
  GgufBuilder builder = one_layer_llama();
  builder.tensor("blk.0.ffn_down.weight").dims = {1 << 20, 8};
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("'blk.0.ffn_down.weight' takes 33554432 bytes"));
}

TEST(GgufReader, ATableOfOverlappingTensorsIsRefused) {
  GgufBuilder builder = one_layer_llama();
  // 200 tensors that take no place of their own: a small file must not stand for much work.
  for (int i = 0; i < 200; ++i)
    builder.tensors.insert(builder.tensors.begin(), {"t" + std::to_string(i), {64}, 0, 0});
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("some overlap"));
}

TEST(GgufReader, TypesAreNamedOrNumbered) {
  GgufBuilder builder = one_layer_llama();
  builder.tensor("blk.0.ffn_up.weight").type = 23;
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("unsupported"));
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("'blk.0.ffn_up.weight' has type IQ4_XS"));
  builder.tensor("blk.0.ffn_up.weight").type = 4000000000u;
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("type number 4000000000"));
  builder.tensor("blk.0.ffn_up.weight").type = 12;  // Q4_K rows come in multiples of 256
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("multiple of 256"));
}

TEST(GgufReader, NamesGivenTwiceAreRefused) {
  GgufBuilder builder = one_layer_llama();
  builder.f32("output_norm.weight", {8});
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("'output_norm.weight' is empty or given twice"));
  builder = one_layer_llama();
  builder.entries.push_back(builder.entries.front());
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("'general.architecture' is given twice"));
}

TEST(GgufReader, ValueTypesOutOfRangeAndNestedArraysAreRefused) {
  GgufBuilder builder = one_layer_llama();
  builder.set("odd", static_cast<ValueType>(13), "");
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("value type 13"));
  builder.set("odd", ValueType::kArray,
              GgufBuilder::raw<uint32_t>(9) + GgufBuilder::raw<uint64_t>(0));
  EXPECT_THAT(outcome(builder.bytes()), HasSubstr("array of arrays"));
}

TEST(GgufReader, ControlCharactersDoNotReachMessages) {
  GgufBuilder builder = one_layer_llama();
  builder.set("\x1b[31m\n" + std::string(500, 'x'), static_cast<ValueType>(99), "");
  const std::string message = outcome(builder.bytes());
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 250u);
}

TEST(GgufMetadata, AccessorsCheckTypes) {
  GgufBuilder builder;
  builder.set("u8", ValueType::kU8, GgufBuilder::raw<uint8_t>(200));
  builder.set("i16", ValueType::kI16, GgufBuilder::raw<int16_t>(-1));
  builder.set("u64", ValueType::kU64, GgufBuilder::raw(UINT64_MAX));
  builder.set("f64", ValueType::kF64, GgufBuilder::raw(0.5));
  builder.set("yes", ValueType::kBool, std::string(1, '\1'));
  builder.set("seven", ValueType::kBool, std::string(1, '\7'));
  builder.strings("words", {"one", "", "three"});
  const std::string bytes = builder.bytes();
  const Metadata data = read(as_bytes(bytes), "x.gguf").metadata;
  EXPECT_EQ(data.find_count("u8"), 200u);
  EXPECT_EQ(data.find_count("absent"), std::nullopt);
  EXPECT_EQ(data.find_real("f64"), 0.5);
  EXPECT_EQ(data.find_bool("yes"), true);
  EXPECT_EQ(data.find_strings("words"), (std::vector<std::string>{"one", "", "three"}));
  EXPECT_THROW(data.find_count("i16"), Error);
  EXPECT_THROW(data.find_count("u64"), Error);
  EXPECT_THROW(data.find_count("f64"), Error);
  EXPECT_THROW(data.find_bool("seven"), Error);
  EXPECT_THROW(data.find_real("u8"), Error);
  EXPECT_THROW(data.find_string("words"), Error);
  EXPECT_THROW(data.find_integers("words"), Error);
  EXPECT_THROW(data.find_strings("u8"), Error);
  EXPECT_THROW(data.count("absent"), Error);
}

}  // namespace
}  // namespace kvern::import::gguf
