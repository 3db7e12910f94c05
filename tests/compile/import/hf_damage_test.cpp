// Damaged config.json, index and safetensors: each loads or is refused, none crashes.
#include <gtest/gtest.h>

#include <chrono>

#include "base/file.h"
#include "kvern/error.h"
#include "tests/compile/import/hf_builder.h"

namespace kvern::import::hf {
namespace {

constexpr const char* kFolder = KVERN_TEST_DATA "/golden/tiny_gemma3/";

// True when `load` ends well; a refusal must be of the right kind and say something.
template <class Load>
bool survives(Load load) {
  try {
    load();
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::kInvalidModel || error.code() == Code::kUnsupported)
        << code_name(error.code()) << ": " << error.what();
    EXPECT_GT(std::string(error.what()).size(), 15u);
    return false;
  }
}

// Cuts, flips, doubled and dropped stretches, hostile numbers: `count` variants of `whole`.
std::vector<std::string> damaged(const std::string& whole, size_t head_bytes, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) {
    std::string text = whole;
    const size_t at = i * 2654435761u % head_bytes;
    switch (i % 5) {
      case 0:
        text.resize(whole.size() * i / count);
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << i % 8));
        break;
      case 2:
        text.insert(at, text.substr(at, 1 + i % 40));
        break;
      case 3:
        text.erase(at, 1 + i % 40);
        break;
      default: {
        const size_t digit = text.find_first_of("0123456789", at);
        const char* number = i % 2 == 0 ? "99999999999999999999" : "-4611686018427387904";
        if (digit != std::string::npos) text.replace(digit, 1, number);
      }
    }
    out.push_back(std::move(text));
  }
  return out;
}

TEST(HfDamage, SafetensorsLoadOrAreRefused) {
  const std::string whole = read_text_file(std::string(kFolder) + "model.safetensors", 1 << 20);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  const auto start = std::chrono::steady_clock::now();
  int refused = 0;
  for (const std::string& bytes : damaged(whole, 8 + header, 200)) {
    refused += !survives([&] { read_safetensors(bytes_of(bytes), "x.safetensors", 0); });
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(HfDamage, ConfigsLoadOrAreRefused) {
  const std::string whole = read_text_file(std::string(kFolder) + "config.json", 1 << 20);
  const WeightFiles weights = open_weights(kFolder);
  ASSERT_TRUE(survives([&] { import_config(whole, weights); }));
  const auto start = std::chrono::steady_clock::now();
  int refused = 0;
  for (const std::string& text : damaged(whole, whole.size(), 400)) {
    refused += !survives([&] { import_config(text, weights); });
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(HfDamage, IndicesLoadOrAreRefused) {
  const std::string whole =
      read_text_file(KVERN_TEST_DATA "/golden/tiny_llama/model.safetensors.index.json", 1 << 20);
  int refused = 0;
  for (const std::string& text : damaged(whole, whole.size(), 200)) {
    refused += !survives([&] { read_index(text, "index.json"); });
  }
  EXPECT_GT(refused, 60);
}

TEST(HfDamage, DeepNestingIsRefused) {
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_FALSE(survives([&] { import_config(deep, {}); }));
  EXPECT_FALSE(survives([&] { read_safetensors(bytes_of(with_length(deep)), "x", 0); }));
}

}  // namespace
}  // namespace kvern::import::hf
