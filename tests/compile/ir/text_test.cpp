// The text form of graphs: print and parse are inverses, and refusals say where.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include <fstream>
#include <random>
#include <sstream>

#include "compile/ir/graph.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::ir {
namespace {

using ::testing::HasSubstr;

std::string read_text(const std::string& path) {
  std::ifstream file(std::string(KVERN_TEST_DATA) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string refusal(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidModel) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(GraphText, TinyLlamaComesBackUnchanged) {
  const std::string text = read_text("passes/llama_tiny.ir");
  ASSERT_FALSE(text.empty());
  const Graph graph = parse(text);
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(print(graph), text);
}

TEST(GraphText, RecipesComeBackUnchanged) {
  const Graph graph = parse(read_text("passes/llama_tiny.ir"));
  const std::string text = print_recipes(graph);
  EXPECT_THAT(text, HasSubstr(R"(= unpermute("blk.1.attn_k.weight", 2))"));
  Graph other;
  parse_recipes(text, other);
  EXPECT_EQ(print_recipes(other), text);
  EXPECT_EQ(other.weights.size(), graph.weights.size());
}

TEST(GraphText, EveryRecipeOperationAndStorageIsKept) {
  const std::string text = R"(graph "t" {
  file "a \"b\".gguf"
  source "a" Q6_K[4, 256] file 0 at 64 bytes 840
  source "b" BF16[2, 256] file 0 at 904 bytes 1024
  source "c" U4[2, 8] file 0 at 1928 bytes 8
  source "s" F16[2, 2] file 0 at 1936 bytes 8
  weight "w" f32[6, 256] store i8 g16 f32 = concat_rows(unpermute("a", 2), "b")
  weight "row" f32[2, 256] store i4 row f16 min = "b"
  weight "one" f32[3] store f32 = literal(1, -0.1, 3e-08)
  weight "slice" f32[1, 256] store bf16 = slice_rows("b", 1, 1)
  weight "part" f32[2, 256] store i8 g16 f32 = head_part("a", 1, 2, 1)
  weight "turned" f32[256, 2] store bf16 = transpose("b")
  weight "more" f32[3] store f32 = offset(literal(1, 2, 3), 0.5)
  weight "strided" f32[2, 256] store f32 = strided_rows("a", 2, 1, 1)
  weight "picked" f32[3, 256] store f32 = pick_rows("a", 3, 0, 3)
  weight "coded" f32[2, 7] store i4 g32 f16 = dequantize("c", "s", literal(8), 1, 4, 7)
  weight "joined" f32[7, 2] store f32 = dequantize("c", "s", literal(8), 1, 4, 7, transposed)
}
)";
  const Graph graph = parse(text);
  EXPECT_EQ(print(graph), text);
  ASSERT_EQ(graph.weights.size(), 11u);
  EXPECT_EQ(graph.weights[0].storage, (QuantFormat{DType::kI8, 16, DType::kF32, false}));
  EXPECT_EQ(graph.weights[1].storage, (QuantFormat{DType::kI4, 0, DType::kF16, true}));
  EXPECT_EQ(graph.weights[2].recipe.nodes[0].values[1], static_cast<double>(-0.1f));
}

// A seed that does not parse teaches the fuzzer nothing.
TEST(GraphText, SeedsOfTheFuzzerParse) {
  const std::filesystem::path folder = std::string(KVERN_TEST_DATA) + "/fuzz/seeds/graph_text";
  int num_seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string printed = print(parse(text));
    EXPECT_EQ(print(parse(printed)), printed);
    ++num_seeds;
  }
  EXPECT_GE(num_seeds, 2);
}

TEST(GraphText, AwkwardNamesAreQuotedAndKept) {
  Graph graph;
  graph.family = "t\"\n";
  const std::vector<ValueId> x = graph.add(
      ops::kInput, {}, Attrs::of(InputAttrs{.name = "x", .dtype = DType::kF32, .width = 4}),
      "a b\"%\n", "layers.3/Attention \"2\"");
  graph.add(ops::kOutput, x, Attrs::of(OutputAttrs{"y"}), "");
  const std::string text = print(graph);
  const Graph again = parse(text);
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(again.value(again.nodes()[0].outputs[0]).name, "a b\"%\n");
  EXPECT_EQ(again.nodes()[0].source_name, "layers.3/Attention \"2\"");
  EXPECT_EQ(again.nodes()[0].attrs, graph.nodes()[0].attrs);
}

TEST(GraphText, CommentsAndSpacesDoNotMatter) {
  const Graph graph = parse("# first\ngraph \"t\"{%x=input(){name=\"x\"}:i32[tokens] # why\n}");
  EXPECT_EQ(print(graph), "graph \"t\" {\n  %x = input() {name = \"x\"} : i32[tokens]\n}\n");
}

struct Refused {
  const char* text;
  const char* message;
};

class GraphTextRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(GraphTextRefuses, WithLineAndColumn) {
  EXPECT_THAT(refusal(GetParam().text), HasSubstr(GetParam().message));
}

constexpr const char* kDeep = "graph \"t\" {\n source \"a\" F32[2] file 0 at 0 bytes 8\n}";

INSTANTIATE_TEST_SUITE_P(
    All, GraphTextRefuses,
    ::testing::Values(
        Refused{"", "line 1, column 1: expected 'graph'"},
        Refused{"graph \"t", "expected a closing quote"},
        Refused{"graph \"t\" {\n  %x = inptu() : i32[tokens]\n}",
                "line 2, column 8: there is no op 'inptu'"},
        Refused{"graph \"t\" {\n  %x = silu(%y) : f32[4]\n}",
                "line 2, column 13: %y is used before it is defined"},
        Refused{"graph \"t\" {\n  %x = silu(%x) : f32[4]\n}", "%x is used before it is defined"},
        Refused{"graph \"t\" {\n  %x = input() {name = \"x\"} : i32[4]\n}",
                "line 2, column 31: %x is i32[tokens], not i32[4]"},
        Refused{"graph \"t\" {\n  %x = input() {nome = \"x\"} : i32[4]\n}",
                "line 2, column 16: input: unknown field 0 'nome'"},
        Refused{"graph \"t\" {\n  %x = input() {name = 3} : i32[4]\n}", "wrong type"},
        Refused{"graph \"t\" {\n  %x = input() {name = \"}", "expected a '}' for this '{'"},
        Refused{"graph \"t\" {\n  %x, %x = input() {name = \"x\"} : i32[4]\n}",
                "line 2, column 7: %x is defined twice"},
        Refused{"graph \"t\" {\n  %x, %y = input() {name = \"x\"} : i32[4]\n}",
                "input has 1 outputs here, 2 are named"},
        Refused{"graph \"t\" {\n  input() {name = \"x\"}\n}",
                "input has 1 outputs here, 0 are named"},
        Refused{"graph \"t\" {\n  %x = input() {name = \"x\"}\n}",
                "line 3, column 1: expected ':'"},
        Refused{"graph \"t\" {\n} more", "line 2, column 3: expected the end of the text"},
        Refused{kDeep, "line 2, column 25: file 0 is outside [0, 0)"},
        Refused{"graph \"t\" {\n file \"f\"\n source \"a\" F33[2] file 0 at 0 bytes 8\n}",
                "line 3, column 13: expected a source type"},
        Refused{"graph \"t\" {\n file \"f\"\n source \"a\" F32[0] file 0 at 0 bytes 8\n}",
                "dims must be positive"},
        Refused{"graph \"t\" {\n file \"f\"\n source \"a\" F32[9223372036854775807, 9] file 0 at",
                "is too large"},
        Refused{"graph \"t\" {\n file \"f\"\n source \"a\" F32[2] file 0 at -1 bytes 8\n}",
                "-1 must not be negative"},
        Refused{"graph \"t\" {\n weight \"w\" f32[2] store f32 = \"a\"\n}",
                "line 2, column 32: no source line has this name"},
        Refused{"graph \"t\" {\n weight \"w\" f32[2] store f32 = literal(1, 2, 3)\n}",
                "line 2, column 9: weight 'w' is [2], its recipe makes [3]"},
        Refused{"graph \"t\" {\n weight \"w\" f32[2] store i8 x32 f16 = literal(1, 2)\n}",
                "expected a group"},
        Refused{"graph \"t\" {\n weight \"w\" f32[2] store f32 = unpermute(literal(1, 2), 2)\n}",
                "2 rows are not 2 heads of an even size"},
        Refused{
            "graph \"t\" {\n weight \"w\" f32[2] store f32 = slice_rows(literal(1, 2), 1, 2)\n}",
            "2 rows from row 1 are not among 2"},
        Refused{
            "graph \"t\" {\n weight \"w\" f32[2] store f32 = head_part(literal(1, 2), 1, 2, 2)\n}",
            "have no part 2 of 2"},
        Refused{"graph \"t\" {\n weight \"w\" f32[2] store f32 = transpose(literal(1, 2))\n}",
                "has no transpose"}));

TEST(GraphText, DeepRecipesAreRefusedNotFollowed) {
  std::string text = "graph \"t\" {\n weight \"w\" f32[2] store f32 = ";
  for (int i = 0; i < 100000; ++i) text += "concat_rows(";
  EXPECT_THAT(refusal(text), HasSubstr("recipes nest no deeper"));
}

TEST(GraphText, OutputsMayHaveTheNamesThatOthersWouldGet) {
  const std::string text = R"(graph "t" {
  %x = input() {name = "x", dtype = 0, width = 4} : f32[tokens, 4]
  %"\n.1", %"\n.0" = split(%x) {sizes = [3, 1]} : f32[tokens, 3], f32[tokens, 1]
  %.1, %.0 = split(%x) {sizes = [3, 1]} : f32[tokens, 3], f32[tokens, 1]
  output(%.0) {name = "y"}
}
)";
  EXPECT_NO_THROW(verify(parse(text)));
}

// Foreign text is hostile: whatever the bytes, a graph or a refusal, never a fault of ours.
TEST(GraphText, DamagedBytesAreRefusedOrHarmless) {
  const std::string text = read_text("passes/llama_tiny.ir");
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string damaged = text;
    for (int n = 0; n < 3; ++n) damaged[random() % text.size()] = text[random() % text.size()];
    try {
      verify(parse(damaged));
    } catch (const Error& error) {
      // verify may still object to what a graph says of its weights.
      if (error.code() == Code::kInternal) {
        EXPECT_THAT(error.what(), HasSubstr("verify: "));
      }
      ++refused;
    }
  }
  EXPECT_GT(refused, 250);
}

TEST(GraphText, EveryCutOfATextIsRefused) {
  const std::string text = read_text("passes/llama_tiny.ir");
  for (size_t length = 0; length + 2 < text.size(); length += 37) {
    EXPECT_NE(refusal(text.substr(0, length)), "accepted") << length;
  }
}

}  // namespace
}  // namespace kvern::ir
