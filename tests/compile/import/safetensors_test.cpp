// The safetensors container: what is read, and that every lie in its header is found and named.
#include "compile/import/hf/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvern/error.h"
#include "tests/compile/import/hf_builder.h"

namespace kvern::import::hf {
namespace {

using testing::HasSubstr;

std::string outcome(const std::string& bytes) {
  try {
    read_safetensors(bytes_of(bytes), "x.safetensors", 0);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.safetensors"));
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "ok";
}

// Ten bytes of data behind a header of one entry.
std::string one(const std::string& entry) {
  return with_length("{\"a\":" + entry + "}") + std::string(8, '\0');
}

TEST(Safetensors, ReadsTypesShapesAndOffsets) {
  SafetensorsBuilder builder;
  builder.add("b", {2, 3});
  builder.add("a", {4}, "BF16");
  builder.add("mask", {1, 1, 2, 2}, "U8");
  builder.add("c", {}, "F16");
  const std::string bytes = builder.bytes();
  const SafetensorsFile file = read_safetensors(bytes_of(bytes), "x.safetensors", 3);
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors[0].name, "b");
  EXPECT_EQ(file.tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(file.tensors[0].bytes, 24u);
  EXPECT_EQ(file.tensors[0].file, 3);
  EXPECT_EQ(file.tensors[1].type, ir::SourceType::kBf16);
  EXPECT_EQ(file.tensors[1].offset, file.tensors[0].offset + 24);
  EXPECT_EQ(file.tensors[2].type, ir::SourceType::kF16);
  EXPECT_EQ(file.tensors[2].offset + 2, bytes.size());
  ASSERT_EQ(file.foreign.size(), 1u);
  EXPECT_EQ(file.foreign[0].name, "mask");
  EXPECT_EQ(file.foreign_types, std::vector<std::string>{"U8"});
}

TEST(Safetensors, EveryPrefixIsRefused) {
  const std::string bytes = llama_tensors().bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THAT(outcome(bytes.substr(0, length)), HasSubstr("invalid_model")) << length;
  }
  EXPECT_EQ(outcome(bytes), "ok");
}

TEST(Safetensors, LiesOfTheHeaderAreNamed) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  EXPECT_EQ(outcome(one(entry("\"F32\"", "[2]", "[0,8]"))), "ok");
  EXPECT_THAT(outcome(one(entry("\"F31\"", "[2]", "[0,8]"))), HasSubstr("dtype 'F31'"));
  EXPECT_THAT(outcome(one(entry("7", "[2]", "[0,8]"))), HasSubstr("'a.dtype' is no string"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[3]", "[0,8]"))), HasSubstr("do not fill"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[0]", "[0,0]"))), HasSubstr("dimension 0"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[-2]", "[0,8]"))), HasSubstr("dimension -2"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[2.5]", "[0,8]"))), HasSubstr("integers"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[4294967296,4294967296]", "[0,8]"))),
              HasSubstr("dimension 4294967296"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[18446744073709551615]", "[0,8]"))),
              HasSubstr("integers"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"))),
              HasSubstr("8 dimensions"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[2]", "[0,12]"))), HasSubstr("cut short"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[2]", "[8,0]"))), HasSubstr("data_offsets"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[2]", "[-8,0]"))), HasSubstr("data_offsets"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[2]", "[0]"))), HasSubstr("data_offsets"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[1]", "[0,4]"))), HasSubstr("end at byte"));
  EXPECT_THAT(outcome(one(entry("\"F32\"", "[1]", "[4,8]"))), HasSubstr("leave a gap"));
  EXPECT_THAT(outcome(one("null")), HasSubstr("no description"));
  EXPECT_THAT(outcome(one("[]")), HasSubstr("'a' is no object"));
  EXPECT_THAT(outcome(with_length("[]")), HasSubstr("no JSON object"));
}

TEST(Safetensors, OverlapAndNamesGivenTwiceAreDamage) {
  const std::string half = R"({"dtype":"F16","shape":[2],"data_offsets":[0,4]})";
  const std::string rest = R"({"dtype":"F16","shape":[2],"data_offsets":[4,8]})";
  const std::string data(8, '\0');
  EXPECT_EQ(outcome(with_length("{\"a\":" + half + ",\"b\":" + rest + "}") + data), "ok");
  EXPECT_THAT(outcome(with_length("{\"a\":" + half + ",\"b\":" + half + "}") + data),
              HasSubstr("overlap"));
  EXPECT_THAT(outcome(with_length("{\"a\":" + half + ",\"a\":" + rest + "}") + data),
              HasSubstr("'a' is described twice"));
}

// Quadratic in the number of keys, these would take minutes.
TEST(Safetensors, AHeaderOfManyKeysIsReadInOneGo) {
  constexpr int kNumTensors = 200'000;
  std::string header = "{\"__metadata__\":{\"nested\":[{\"a\":1}],\"format\":\"pt\"}";
  std::string index = "{\"metadata\":{\"weight_map\":{\"x\":1}},\"weight_map\":{\"t\":\"f\"";
  for (int i = 0; i < kNumTensors; ++i) {
    header += ",\"" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
    index += ",\"" + std::to_string(i) + "\":\"f\"";
  }
  const std::string bytes = with_length(header + "}") + std::string(kNumTensors, '\0');
  const SafetensorsFile file = read_safetensors(bytes_of(bytes), "x.safetensors", 0);
  EXPECT_EQ(file.foreign.size(), size_t{kNumTensors});
  EXPECT_EQ(read_index(index + "}}", "index.json").size(), size_t{kNumTensors} + 1);
  EXPECT_THROW(read_index("{\"weight_map\":{\"a\":[\"f\"]}}", "index.json"), Error);
  EXPECT_THROW(read_index("{\"weight_map\":{\"a\":\"f\",\"a\":\"g\"}}", "index.json"), Error);
  EXPECT_THROW(read_index("{\"metadata\":{}}", "index.json"), Error);
}

TEST(Safetensors, AHeaderLongerThanTheFileIsNotBelieved) {
  std::string bytes = llama_tensors().bytes();
  for (const uint64_t length : {uint64_t{1} << 20, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_THAT(outcome(bytes), HasSubstr("has a header of"));
  }
}

}  // namespace
}  // namespace kvern::import::hf
