#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace kvern {
namespace {

TEST(Json, ParsesAndPrints) {
  const Json json = parse_json(R"({"b": [1, 2.5, null], "a": "é"})", "test", Code::kInvalidModel);
  EXPECT_EQ(dump_json(json), R"({"b":[1,2.5,null],"a":"é"})");  // in the order of the text
}

TEST(Json, BrokenTextsCarryTheGivenCodeAndName) {
  for (const char* text : {"", "{", "[1,]", "{\"a\": }", "nul", "1 2", "\"\xff\""}) {
    try {
      parse_json(text, "tokenizer.json", Code::kInvalidModel);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find("tokenizer.json"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Json, DepthIsCapped) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(60), "test", Code::kInvalidModel));
  EXPECT_THROW(parse_json(nested(70), "test", Code::kInvalidModel), Error);
  EXPECT_THROW(parse_json(nested(2000000), "test", Code::kInvalidModel), Error);
}

TEST(Json, AnyBytesCanBePrinted) {
  EXPECT_NE(dump_json(Json("a\xff\xfe")).find('a'), std::string::npos);
}

}  // namespace
}  // namespace kvern
