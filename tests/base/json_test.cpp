#include "base/json.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(Json, ParsesAndKeepsTheOrderOfKeys) {
  const Json json = parse_json(R"({"b": 1, "a": [true, null, "x"]})", "test", Code::kInvalidModel);
  EXPECT_EQ(dump_json(json), R"({"b":1,"a":[true,null,"x"]})");
}

TEST(Json, RefusesWithNameByteAndCode) {
  for (const char* text : {"", "{", "[1,]", "nul", "{\"a\" 1}", "\"\\ud800\"", "1 2"}) {
    try {
      parse_json(text, "the manifest", Code::kInvalidPlan);
      ADD_FAILURE() << text << " was parsed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidPlan);
      EXPECT_NE(std::string(error.what()).find("the manifest"), std::string::npos);
    }
  }
}

TEST(Json, DepthIsCapped) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse_json(nested(8), "test", Code::kInvalidModel, /*max_depth=*/8));
  EXPECT_THROW(parse_json(nested(10), "test", Code::kInvalidModel, /*max_depth=*/8), Error);
  EXPECT_THROW(parse_json(nested(1000000), "test", Code::kInvalidModel), Error);
}

TEST(Json, BrokenUtf8IsReplacedAndNotThrown) {
  EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

std::string object_of(size_t num_keys) {
  std::string out = "{";
  for (size_t i = 0; i < num_keys; ++i) {
    out += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{\"a\":0}";
  }
  return out + "}";
}

TEST(Json, KeysAreCapped) {
  EXPECT_NO_THROW(parse_json(object_of(4096), "test", Code::kInvalidModel));
  // Inner objects of one key each do not count for the outer one, and the other way round.
  EXPECT_THROW(parse_json(object_of(4097), "test", Code::kInvalidModel), Error);
  std::string list = "[" + object_of(4000);
  for (int i = 1; i < 32; ++i) list += "," + object_of(4000);
  EXPECT_NO_THROW(parse_json(list + "]", "test", Code::kInvalidModel));
  EXPECT_THROW(parse_json(list + "," + object_of(4000) + "]", "test", Code::kInvalidModel), Error);
}

}  // namespace
}  // namespace kvern
