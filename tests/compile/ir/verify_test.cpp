// Each invariant of a graph, broken once. Also the shapes and rows of recipes.
#include <gmock/gmock.h>

#include "compile/ir/graph.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::ir {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSound = R"(graph "t" {
  weight "w" f32[8] store f32 = literal(1, 1, 1, 1, 1, 1, 1, 1)
  %q = input() {name = "q", dtype = 0, width = 8} : f32[tokens, 8]
  %w = weight() {name = "w", shape = [8]} : f32[8]
  %n = rms_norm(%q, %w) : f32[tokens, 8]
  %kv = kv_append(%n, %n) {kv_heads = 2, dim_k = 4, dim_v = 4} : !kv
  %y = kv_attention(%q, %kv) {heads = 2, kv_heads = 2, dim_k = 4, dim_v = 4} : f32[tokens, 8]
  output(%y) {name = "y"}
}
)";

// What verify says of the sound graph after `damage`.
template <class Damage>
std::string complaint(Damage damage) {
  Graph graph = parse(kSound);
  verify(graph);
  damage(graph);
  try {
    verify(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "sound";
}

TEST(Verify, FindsAValueUsedBeforeItsDefinition) {
  EXPECT_THAT(complaint([](Graph& g) { std::swap(g.nodes()[1], g.nodes()[2]); }),
              HasSubstr("%w is used undefined"));
}

TEST(Verify, FindsAValueThatIsNotThere) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes()[2].inputs[0] = ValueId(99); }),
              HasSubstr("reads value 99"));
  EXPECT_THAT(complaint([](Graph& g) { g.nodes()[2].inputs[0] = ValueId(); }),
              HasSubstr("reads value -1"));
}

TEST(Verify, FindsAValueDefinedTwice) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes().insert(g.nodes().begin(), g.nodes()[0]); }),
              HasSubstr("two inputs 'q'"));
  EXPECT_THAT(complaint([](Graph& g) { g.nodes().insert(g.nodes().begin() + 3, g.nodes()[2]); }),
              HasSubstr("%n is defined twice"));
}

TEST(Verify, FindsTypesThatAreNotAsInferred) {
  EXPECT_THAT(complaint([](Graph& g) {
                g.nodes()[3].attrs = Attrs::of(KvAppendAttrs{0, 2, 4, 3});
              }),
              HasSubstr("v must be 6 wide"));
  EXPECT_THAT(complaint([](Graph& g) {
                g.nodes()[4].attrs =
                    Attrs::of(KvAttentionAttrs{.heads = 2, .kv_heads = 2, .dim_k = 4, .dim_v = 5});
              }),
              HasSubstr("%y is f32[tokens, 8], inferred f32[tokens, 10]"));
}

TEST(Verify, FindsWrongNumbersOfInputsAndOutputs) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes()[2].inputs.pop_back(); }),
              HasSubstr("has 1 inputs"));
  EXPECT_THAT(complaint([](Graph& g) { g.nodes()[5].outputs = {ValueId(0)}; }),
              HasSubstr("has 1 outputs, 0 inferred"));
}

TEST(Verify, FindsKvInAnOpWithoutState) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes()[5].inputs[0] = g.nodes()[3].outputs[0]; }),
              HasSubstr("!kv %kv in an op without state"));
}

TEST(Verify, FindsASlotThatIsNotTheValues) {
  EXPECT_THAT(complaint([](Graph& g) {
                auto attrs = g.nodes()[4].attrs.as<KvAttentionAttrs>();
                attrs.slot = 1;
                g.nodes()[4].attrs = Attrs::of(attrs);
              }),
              HasSubstr("%kv belongs to slot 0, not 1"));
}

TEST(Verify, FindsASlotWrittenTwice) {
  EXPECT_THAT(complaint([](Graph& g) {
                const Node& append = g.nodes()[3];
                g.add(*append.op, append.inputs, append.attrs, "kv");
              }),
              HasSubstr("slot 0 is written twice"));
}

TEST(Verify, FindsWeightsThatAreMissingOrOfAnotherShape) {
  EXPECT_THAT(complaint([](Graph& g) { g.weights[0].name = "v"; }),
              HasSubstr("there is no weight 'w'"));
  EXPECT_THAT(complaint([](Graph& g) {
                g.weights[0].shape = {2, 4};
              }),
              HasSubstr("weight 'w' is [2, 4], not [8]"));
  EXPECT_THAT(complaint([](Graph& g) { g.weights[0].shape = {7}; }),
              HasSubstr("is [7], its recipe makes [8]"));
  EXPECT_THAT(complaint([](Graph& g) { g.weights.push_back(g.weights[0]); }),
              HasSubstr("weight 'w': is there twice"));
}

TEST(Verify, FindsOutputsOfOneName) {
  EXPECT_THAT(complaint([](Graph& g) {
                const Node& output = g.nodes()[5];
                g.add(*output.op, output.inputs, output.attrs, "");
              }),
              HasSubstr("two outputs 'y'"));
}

TEST(Verify, FindsANodeWithoutAnOp) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes()[0].op = nullptr; }),
              HasSubstr("every node has an op"));
}

std::string recipe_refusal(const Recipe& recipe) {
  const std::vector<WeightSource> sources{{.name = "a", .shape = {4, 8}},
                                          {.name = "b", .shape = {2, 9}}};
  try {
    return to_string(recipe_shape(recipe, sources, {2}));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RecipeShape, FollowsAndRefuses) {
  const RecipeNode a{.source = 0};
  const RecipeNode b{.source = 1};
  using enum RecipeOp;
  EXPECT_EQ(recipe_refusal({{a}}), "[4, 8]");
  EXPECT_EQ(recipe_refusal({{a, a, {.op = kConcatRows, .inputs = {0, 1}}}}), "[8, 8]");
  EXPECT_EQ(recipe_refusal({{a, {.op = kUnpermute, .inputs = {0}, .heads = 2}}}), "[4, 8]");
  EXPECT_THAT(recipe_refusal({}), HasSubstr("empty"));
  EXPECT_THAT(recipe_refusal({{{.source = 7}}}), HasSubstr("source 7 of 2 does not exist"));
  EXPECT_THAT(recipe_refusal({{{.op = kConcatRows}}}), HasSubstr("a concat of nothing"));
  EXPECT_THAT(recipe_refusal({{a, b, {.op = kConcatRows, .inputs = {0, 1}}}}),
              HasSubstr("rows of [2, 9] cannot be appended to [4, 8]"));
  EXPECT_THAT(recipe_refusal({{a, {.op = kUnpermute, .inputs = {0}, .heads = 4}}}),
              HasSubstr("4 rows are not 4 heads of an even size"));
  EXPECT_THAT(recipe_refusal({{a, {.op = kUnpermute, .inputs = {1}, .heads = 2}}}),
              HasSubstr("node 1 reads node 1"));
  EXPECT_THAT(recipe_refusal({{a, {.op = kConcatRows, .inputs = {0, 0}}}}),
              HasSubstr("node 0 has 2 readers"));
  EXPECT_THAT(recipe_refusal({{a, b}}), HasSubstr("node 0 has 0 readers"));
  EXPECT_THAT(recipe_refusal({{{.op = kLiteral}}}), HasSubstr("a literal without values"));
}

TEST(RecipeShape, LiteralsInAConcatAreRowsOfTheWeight) {
  using enum RecipeOp;
  const RecipeNode numbers{.op = kLiteral, .values = std::vector<double>(8, 0.5)};
  const Recipe recipe{{{.source = 0}, numbers, {.op = kConcatRows, .inputs = {0, 1}}}};
  EXPECT_EQ(recipe_shape(recipe, {{.name = "a", .shape = {3, 4}}}, {5, 4}), (Shape{5, 4}));
  EXPECT_EQ(recipe_shape(recipe, {{.name = "a", .shape = {3}}}, {11}), (Shape{11}));
  EXPECT_THROW(recipe_shape(recipe, {{.name = "a", .shape = {3, 3}}}, {5, 3}), Error);
}

TEST(Unpermute, UndoesTheInterleavingOfEachHead) {
  // 2 heads of 4 rows, interleaved (0, 2, 1, 3): rows 0 2 1 3 | 4 6 5 7 lie in the file.
  const int64_t file[] = {0, 2, 1, 3, 4, 6, 5, 7};
  const RecipeNode node{.op = RecipeOp::kUnpermute, .heads = 2};
  for (int64_t row = 0; row < 8; ++row) EXPECT_EQ(file[moved_row(node, row, 8)], row);
}

TEST(HeadPart, TakesOnePartOfEveryHead) {
  // 2 heads, 3 parts, 2 rows each: part 1 of head 0 are rows 2 and 3, of head 1 rows 8 and 9.
  const RecipeNode node{.op = RecipeOp::kHeadPart, .heads = 2, .parts = 3, .part = 1};
  EXPECT_EQ(num_moved_rows(node, 12), 4);
  const int64_t wanted[] = {2, 3, 8, 9};
  for (int64_t row = 0; row < 4; ++row) EXPECT_EQ(moved_row(node, row, 12), wanted[row]);
}

TEST(StridedRows, TakesTheSameRowsOfEveryPeriod) {
  const RecipeNode node{.op = RecipeOp::kStridedRows, .heads = 2, .first_row = 1, .num_rows = 3};
  EXPECT_EQ(num_moved_rows(node, 10), 6);
  const int64_t wanted[] = {1, 2, 3, 6, 7, 8};
  for (int64_t row = 0; row < 6; ++row) EXPECT_EQ(moved_row(node, row, 10), wanted[row]);
}

TEST(SourceTypes, BlocksHoldTheirBits) {
  EXPECT_EQ(source_type_info(SourceType::kQ6_K).block_bytes, 128 + 64 + 16 + 2);
  EXPECT_EQ(source_type_info(SourceType::kQ4_K).block_bytes, 4 + 12 + 128);
  EXPECT_EQ(source_type_info(SourceType::kQ5_K).block_bytes, 4 + 12 + 32 + 128);
  EXPECT_EQ(source_type_info(SourceType::kQ5_1).block_bytes, 4 + 4 + 16);
  EXPECT_EQ(source_type_from_name("Q4_1"), SourceType::kQ4_1);
  EXPECT_EQ(source_type_from_name("Q4_2"), std::nullopt);
}

}  // namespace
}  // namespace kvern::ir
