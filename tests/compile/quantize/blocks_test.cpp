// Block decoders against the values that the PyPI package `gguf` gives (scripts/golden/
// gguf_blocks.py), bit for bit.
#include "compile/quantize/blocks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/json.h"
#include "compile/quantize/exact_format.h"
#include "compile/quantize/quantize_row.h"
#include "tests/compile/quantize/source_file.h"

namespace kvern::quantize {
namespace {

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

Json golden() {
  const std::string path = KVERN_TEST_DATA "/golden/gguf_blocks.json";
  return parse_json(read_text_file(path, 1 << 20), path, Code::kInvalidModel);
}

struct Expected {
  std::string blocks;
  std::vector<float> values;
};

Expected expected(const Json& types, const std::string& name) {
  Expected out;
  out.blocks = from_hex(types.at(name).at("blocks").get<std::string>());
  const std::string raw = from_hex(types.at(name).at("values").get<std::string>());
  out.values.resize(raw.size() / 4);
  std::memcpy(out.values.data(), raw.data(), raw.size());
  return out;
}

// Bit for bit, but for the sign of zero.
bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  return a == b;
}

TEST(Blocks, EveryTypeDecodesToTheGoldenValues) {
  const Json types = golden().at("types");
  EXPECT_EQ(types.size(), 11u);
  for (const auto& [name, unused] : types.items()) {
    const Expected want = expected(types, name);
    const auto type = ir::source_type_from_name(name);
    ASSERT_TRUE(type) << name;
    SourceFile source;
    const auto k = static_cast<int64_t>(want.values.size());
    ir::Weight& weight = source.weight(source.add(name, *type, {1, k}, want.blocks));
    const Files files = source.files();
    EXPECT_TRUE(same_values(materialize_f32(source.graph, weight, files), want.values)) << name;
  }
}

TEST(Blocks, KeepHoldsEveryTypeExactly) {
  const Json types = golden().at("types");
  for (const auto& [name, unused] : types.items()) {
    const Expected want = expected(types, name);
    SourceFile source;
    const auto k = static_cast<int64_t>(want.values.size());
    ir::Weight& weight =
        source.weight(source.add(name, *ir::source_type_from_name(name), {1, k}, want.blocks));
    const std::vector<WeightNote> notes = apply(source.graph, WeightChoice::kKeep);
    EXPECT_TRUE(notes[0].exact) << name;
    EXPECT_EQ(notes[0].from, name);
    const kernels::CodedRows stored = materialize(source.graph, weight, source.files());
    std::vector<float> got(want.values.size());
    dequantize_row(stored, 0, got.data());
    EXPECT_TRUE(same_values(got, want.values)) << name << " as " << notes[0].to;
  }
}

TEST(Blocks, StorageOfEveryTypeIsTheSmallestExactOne) {
  const std::vector<std::pair<const char*, const char*>> wanted = {{"F32", "f32"},
                                                                   {"F16", "f16"},
                                                                   {"BF16", "bf16"},
                                                                   {"Q8_0", "i8 g32 f16"},
                                                                   {"Q4_0", "i4 g32 f16"},
                                                                   {"Q4_1", "i4 g32 f16 min"},
                                                                   {"Q5_0", "i8 g32 f16"},
                                                                   {"Q5_1", "i8 g32 f16 min"},
                                                                   {"Q4_K", "i4 g32 f32 min"},
                                                                   {"Q5_K", "i8 g32 f32 min"},
                                                                   {"Q6_K", "i8 g16 f32"}};
  for (const auto& [name, format] : wanted) {
    EXPECT_EQ(to_string(ir::source_type_info(*ir::source_type_from_name(name)).exact), format);
  }
}

// One row of 256 elements, the golden blocks repeated.
Expected row_of_256(const Json& types, const std::string& name) {
  const ir::SourceTypeInfo& type = ir::source_type_info(*ir::source_type_from_name(name));
  const Expected once = expected(types, name);
  const auto bytes = static_cast<size_t>(256 / type.block_elements * type.block_bytes);
  Expected row;
  while (row.blocks.size() < bytes) row.blocks += once.blocks;
  while (row.values.size() < 256) {
    row.values.insert(row.values.end(), once.values.begin(), once.values.end());
  }
  row.blocks.resize(bytes);
  row.values.resize(256);
  return row;
}

TEST(Blocks, JoinedTypesStayExact) {
  const Json types = golden().at("types");
  const std::vector<std::pair<const char*, const char*>> pairs = {
      {"Q4_K", "Q6_K"}, {"Q4_0", "Q4_1"}, {"Q8_0", "Q5_K"}, {"Q5_K", "Q4_K"}, {"F16", "Q4_1"}};
  for (const auto& [first, second] : pairs) {
    SourceFile source;
    std::vector<Expected> rows;
    ir::Weight weight{"joined", {2, 256}, {}, {}};
    for (const char* name : {first, second}) {
      rows.push_back(row_of_256(types, name));
      ir::RecipeNode leaf;
      leaf.source =
          source.add(name, *ir::source_type_from_name(name), {1, 256}, rows.back().blocks);
      weight.recipe.nodes.push_back(leaf);
    }
    ir::RecipeNode concat;
    concat.op = ir::RecipeOp::kConcatRows;
    concat.inputs = {0, 1};
    weight.recipe.nodes.push_back(concat);
    source.graph.weights.push_back(weight);
    const std::vector<WeightNote> notes = apply(source.graph, WeightChoice::kKeep);
    EXPECT_TRUE(notes[0].exact);
    EXPECT_EQ(notes[0].from, std::string(first) + "+" + second);
    const kernels::CodedRows stored =
        materialize(source.graph, source.graph.weights[0], source.files());
    std::vector<float> got(256);
    for (int64_t row = 0; row < 2; ++row) {
      dequantize_row(stored, row, got.data());
      EXPECT_TRUE(same_values(got, rows[static_cast<size_t>(row)].values))
          << notes[0].from << " as " << notes[0].to;
    }
  }
}

}  // namespace
}  // namespace kvern::quantize
