// Graphs of .onnx files: names, order, bodies, old and new versions.
#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(OnnxReader, ReadsAGraph) {
  Msg file = model(add_graph());
  file.text(3, "2.9").sub(8, opset(1, "com.microsoft"));
  file.sub(14, Msg().text(1, "note").text(2, "of a test"));
  const OnnxModel read = read_onnx_bytes(bytes_of(file.bytes), "t.onnx");
  EXPECT_TRUE(read.warnings.empty());
  EXPECT_TRUE(read.files.empty());
  EXPECT_EQ(read.model.ir_version, 8);
  EXPECT_EQ(read.model.producer, "tests 2.9");
  EXPECT_EQ(read.model.opsets, (std::map<std::string, int64_t>{{"", 18}, {"com.microsoft", 1}}));
  EXPECT_EQ(read.model.metadata.at("note"), "of a test");
  const ir::TensorGraph& graph = read.model.graph;
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op, "Add");
  EXPECT_EQ(graph.nodes[0].name, "sum");
  EXPECT_EQ(graph.nodes[0].opset, 18);
  EXPECT_THAT(graph.inputs, ElementsAre(graph.find("x")));
  EXPECT_THAT(graph.outputs, ElementsAre(graph.find("y")));
  const ir::TensorValue& x = graph.values[static_cast<size_t>(graph.find("x"))];
  EXPECT_EQ(x.type, ir::ElementType::kFloat);
  EXPECT_THAT(x.dims, ElementsAre(ir::TensorDim{-1, "batch"}, ir::TensorDim{2, ""}));
  EXPECT_THAT(graph.constants.at(graph.find("w")).as<float>(), ElementsAre(1.0F, 2.0F));
}

TEST(OnnxReader, ReadsAttributesOfEveryKind) {
  Msg op = node("Odd", {}, {"y"}, "n", "my.domain");
  op.sub(5, attr_f("f", 0.5F)).sub(5, attr_i("i", -3)).sub(5, attr_s("s", "text"));
  op.sub(5, attr_ints("ints", {1, -2})).sub(5, attr_t("t", ints("", {2}, {7, 8})));
  op.sub(5, attr("floats", 6).f32(7, 1.5F)).sub(5, attr("strings", 8).text(9, "a").text(9, ""));
  op.sub(5, Msg().text(1, "untyped").num(3, 4));
  const ir::TensorGraph graph = graph_of(Msg().sub(1, op).sub(12, Msg().text(1, "y")));
  const ir::TensorNode& read = graph.nodes.at(0);
  EXPECT_EQ(read.domain, "my.domain");
  EXPECT_EQ(read.f("f", 0), 0.5);
  EXPECT_EQ(read.i("i", 0), -3);
  EXPECT_EQ(read.s("s", ""), "text");
  EXPECT_THAT(read.ints("ints"), ElementsAre(1, -2));
  EXPECT_THAT(read.tensor("t")->to_i64(), ElementsAre(7, 8));
  EXPECT_THAT(read.floats("floats"), ElementsAre(1.5));
  EXPECT_THAT(std::get<std::vector<std::string>>(read.attrs.at("strings")), ElementsAre("a", ""));
  EXPECT_EQ(read.i("untyped", 0), 4);
}

TEST(OnnxReader, SortsNodesAndKeepsTheirOrderWhereItIsRight) {
  Msg graph;
  graph.sub(1, node("Neg", {"b"}, {"c"})).sub(1, node("Abs", {"x"}, {"a"}));
  graph.sub(1, node("Exp", {"a"}, {"b"})).sub(1, node("Log", {"x"}, {"d"}));
  graph.sub(11, Msg().text(1, "x")).sub(12, Msg().text(1, "c")).sub(12, Msg().text(1, "d"));
  std::vector<std::string> ops;
  for (const ir::TensorNode& each : graph_of(graph).nodes) ops.push_back(each.op);
  EXPECT_THAT(ops, ElementsAre("Abs", "Exp", "Neg", "Log"));
}

TEST(OnnxReader, LeavesOutOptionalInputsAndOutputs) {
  Msg graph;
  graph.sub(1, node("Clip", {"x", "", "m"}, {"y", "", "z"}));
  graph.sub(11, Msg().text(1, "x")).sub(11, Msg().text(1, "m")).sub(12, Msg().text(1, "y"));
  const ir::TensorGraph read = graph_of(graph);
  const ir::TensorNode& op = read.nodes.at(0);
  EXPECT_THAT(op.inputs, ElementsAre(read.find("x"), ir::kNoValue, read.find("m")));
  EXPECT_THAT(op.outputs, ElementsAre(read.find("y"), ir::kNoValue, read.find("z")));
}

TEST(OnnxReader, InitializersAmongTheInputsAreNone) {
  Msg graph = add_graph();
  graph.sub(11, value_info("w", 1, {"2"}));
  const ir::TensorGraph read = graph_of(graph);
  EXPECT_THAT(read.inputs, ElementsAre(read.find("x")));
  EXPECT_TRUE(read.constants.contains(read.find("w")));
}

TEST(OnnxReader, ConstantNodesBecomeConstants) {
  Msg graph;
  const auto constant = [&](const char* name, const Msg& attribute) {
    graph.sub(1, node("Constant", {}, {name}, name, "ai.onnx").sub(5, attribute));
    graph.sub(12, Msg().text(1, name));
  };
  constant("t", attr_t("value", floats("", {1, 2}, {3, 4})));
  constant("f", attr_f("value_float", 0.5F));
  constant("i", attr_i("value_int", -9));
  constant("fs", attr("value_floats", 6).f32(7, 1).f32(7, 2));
  constant("is", attr_ints("value_ints", {4, 5, 6}));
  const ir::TensorGraph read = graph_of(graph);
  EXPECT_TRUE(read.nodes.empty());
  const auto at = [&](const char* name) { return read.constants.at(read.find(name)); };
  EXPECT_EQ(at("t").shape(), (Shape{1, 2}));
  EXPECT_EQ(at("f").shape(), Shape{});
  EXPECT_EQ(at("f").type(), ir::ElementType::kFloat);
  EXPECT_THAT(at("i").to_i64(), ElementsAre(-9));
  EXPECT_EQ(at("i").shape(), Shape{});
  EXPECT_THAT(at("fs").to_f64(), ElementsAre(1.0, 2.0));
  EXPECT_THAT(at("is").to_i64(), ElementsAre(4, 5, 6));
}

// A branch reads the graph around it, and the one inside it does so through it.
TEST(OnnxReader, BodiesCaptureWhatTheyRead) {
  Msg inner = Msg().sub(1, node("Add", {"x", "late"}, {"r"})).sub(12, Msg().text(1, "r"));
  Msg then = Msg().sub(1, node("If", {"c"}, {"q"}, "inner").sub(5, attr_g("then_branch", inner)));
  then.sub(12, Msg().text(1, "q"));
  Msg graph = Msg().sub(1, node("If", {"c"}, {"y"}, "outer").sub(5, attr_g("then_branch", then)));
  graph.sub(1, node("Neg", {"x"}, {"late"}));  // behind its reader in the file
  graph.sub(11, Msg().text(1, "c")).sub(11, Msg().text(1, "x")).sub(12, Msg().text(1, "y"));
  const ir::TensorGraph read = graph_of(graph);
  ASSERT_EQ(read.nodes.size(), 2u);
  EXPECT_EQ(read.nodes[0].op, "Neg");
  const auto branch = read.nodes[1].graph("then_branch");
  ASSERT_NE(branch, nullptr);
  EXPECT_EQ(branch->captures.size(), 3u);
  for (const auto& [outer, own] : branch->captures) {
    EXPECT_EQ(read.name_of(outer), branch->name_of(own));
  }
  const auto deepest = branch->nodes.at(0).graph("then_branch");
  ASSERT_EQ(deepest->captures.size(), 2u);
  EXPECT_EQ(branch->name_of(deepest->captures[1].first), "late");
}

TEST(OnnxReader, TriesNewerVersionsWithAWarning) {
  const Msg file = Msg().num(1, 99).sub(7, add_graph()).sub(8, opset(500));
  const OnnxModel read = read_onnx_bytes(bytes_of(file.bytes), "t.onnx");
  ASSERT_EQ(read.warnings.size(), 2u);
  EXPECT_THAT(read.warnings[0], HasSubstr("IR version 99"));
  EXPECT_THAT(read.warnings[1], HasSubstr("opset 500"));
  EXPECT_EQ(read.model.graph.nodes[0].opset, 500);
}

TEST(OnnxReader, AssumesOpset1WhereTheFileSaysNone) {
  const Msg file = Msg().num(1, 8).sub(7, add_graph());
  const OnnxModel read = read_onnx_bytes(bytes_of(file.bytes), "t.onnx");
  ASSERT_EQ(read.warnings.size(), 1u);
  EXPECT_THAT(read.warnings[0], HasSubstr("ai.onnx"));
  EXPECT_EQ(read.model.graph.nodes[0].opset, 1);
}

TEST(OnnxReader, KnowsItsFilesByContent) {
  EXPECT_TRUE(looks_like_onnx(bytes_of(model(add_graph()).bytes)));
  EXPECT_TRUE(looks_like_onnx(bytes_of(model(add_graph()).bytes.substr(0, 12))));
  for (const char* other :
       {"", "\x08", "GGUF\3", "{\"a\": 1}", "\x08\x08\x08\x08", "\x08\xff\xff\x7f"}) {
    EXPECT_FALSE(looks_like_onnx(bytes_of(std::string(other)))) << other;
  }
}

TEST(OnnxReader, FindsTheFileOfAFolder) {
  const TempFolder folder;
  const std::string path = folder.path.string();
  EXPECT_EQ(find_onnx(path), "");
  folder.write("onnx/model.onnx", "x");
  EXPECT_EQ(find_onnx(path), path + "/onnx/model.onnx");
  folder.write("decoder_model.onnx", "x");
  EXPECT_EQ(find_onnx(path), path + "/decoder_model.onnx");
  folder.write("decoder_with_past_model.onnx", "x");
  const std::string two = refusal_of(Code::kInvalidModel, [&] { find_onnx(path); });
  EXPECT_THAT(two, HasSubstr("give '" + path + "/decoder_model.onnx'"));
  folder.write("decoder_model_merged.onnx", "x");
  EXPECT_EQ(find_onnx(path), path + "/decoder_model_merged.onnx");
  folder.write("model.onnx", "x");
  EXPECT_EQ(find_onnx(path), path + "/model.onnx");
}

}  // namespace
}  // namespace kvern::import::onnx
