// Damaged and hostile .onnx files: each is refused with the right words, or read; none crashes.
#include <chrono>

#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Msg chain(const std::vector<Msg>& nodes) {
  Msg out;
  for (const Msg& each : nodes) out.sub(1, each);
  return out.sub(11, Msg().text(1, "x")).sub(12, Msg().text(1, "y"));
}

TEST(OnnxHostile, EmptyAndForeignFiles) {
  EXPECT_THAT(refusal(Msg()), HasSubstr("is empty"));
  EXPECT_THAT(refusal(Msg().num(1, 8)), HasSubstr("holds no graph"));
  EXPECT_THAT(refusal(Msg().text(7, "not a graph")), HasSubstr("damaged or cut short"));
  EXPECT_THAT(refusal(Msg().num(7, 3)), HasSubstr("field 7 of ModelProto has wire type 0"));
}

TEST(OnnxHostile, CutShort) {
  const std::string whole = model(add_graph()).bytes;
  for (size_t size = 1; size + 8 < whole.size(); ++size) {
    Msg cut;
    cut.bytes = whole.substr(0, size);
    refusal(cut);
  }
  Msg huge = Msg().num(1, 8);
  huge.varint(7 << 3 | 2).varint(uint64_t{1} << 62);  // a graph of 4 EiB
  EXPECT_THAT(refusal(huge), HasSubstr("a field of 4611686018427387904 bytes where 0 are left"));
}

TEST(OnnxHostile, NamesGivenTwice) {
  EXPECT_THAT(
      refusal(model(chain({node("Neg", {"x"}, {"y"}, "a"), node("Abs", {"x"}, {"y"}, "b")}))),
      AllOf(HasSubstr("'y' is given twice"), HasSubstr("node 'b' (Abs)")));
  EXPECT_THAT(refusal(model(chain({node("Neg", {"y"}, {"x"}, "a")}))),
              HasSubstr("'x' is given twice"));
  EXPECT_THAT(refusal(model(add_graph().sub(5, floats("w", {1}, {1})))),
              HasSubstr("'w' is given twice"));
  EXPECT_THAT(refusal(model(add_graph().sub(11, Msg().text(1, "x")))), HasSubstr("listed twice"));
  EXPECT_THAT(refusal(model(add_graph().sub(12, Msg().text(1, "y")))), HasSubstr("listed twice"));
  const Msg twice = node("Neg", {"x"}, {"y"}, "n").sub(5, attr_i("a", 1)).sub(5, attr_i("a", 1));
  EXPECT_THAT(refusal(model(chain({twice}))), HasSubstr("attribute 'a' is given twice"));
}

TEST(OnnxHostile, NamesThatNothingMakes) {
  EXPECT_THAT(refusal(model(chain({node("Neg", {"z"}, {"y"}, "n")}))),
              HasSubstr("node 'n' (Neg) reads 'z'"));
  EXPECT_THAT(refusal(model(chain({node("Neg", {"x"}, {"z"}, "n")}))),
              HasSubstr("outputs reads 'y'"));
  EXPECT_THAT(refusal(model(chain({node("", {"x"}, {"y"}, "n")}))), HasSubstr("has no op"));
}

TEST(OnnxHostile, Cycles) {
  EXPECT_THAT(
      refusal(model(chain({node("Neg", {"x"}, {"y"}, "out"), node("Add", {"b", "x"}, {"a"}, "one"),
                           node("Abs", {"a"}, {"b"}, "two")}))),
      AllOf(HasSubstr("cyclic"), HasSubstr("2 nodes"), HasSubstr("'one' (Add)"),
            HasSubstr("'two' (Abs)")));
  EXPECT_THAT(refusal(model(chain({node("Neg", {"y"}, {"y"}, "self")}))),
              HasSubstr("'self' (Neg)"));
  // Through a body.
  const Msg branch = Msg().sub(1, node("Neg", {"y"}, {"q"})).sub(12, Msg().text(1, "q"));
  EXPECT_THAT(refusal(model(chain({node("If", {"x"}, {"y"}, "if").sub(5, attr_g("b", branch))}))),
              HasSubstr("'if' (If)"));
}

TEST(OnnxHostile, AttributesThatContradictTheirType) {
  const auto with = [](const Msg& attribute) {
    return model(chain({node("Neg", {"x"}, {"y"}, "n").sub(5, attribute)}));
  };
  EXPECT_THAT(refusal(with(attr("axis", 2).num(8, 1))),
              HasSubstr("node 'n' (Neg): attribute 'axis' is said to be an integer and holds "
                        "integers"));
  EXPECT_THAT(refusal(with(attr("axes", 7).num(3, 1))), HasSubstr("holds an integer"));
  EXPECT_THAT(refusal(with(attr("t", 4))), HasSubstr("holds no tensor"));
  EXPECT_THAT(refusal(with(attr("g", 5))), HasSubstr("holds no graph"));
  EXPECT_THAT(refusal(with(Msg().text(1, "a"))), HasSubstr("holds nothing"));
  EXPECT_THAT(refusal(with(attr("s", 11)), Code::kUnsupported), HasSubstr("a sparse tensor"));
  EXPECT_THAT(refusal(with(attr("s", 77)), Code::kUnsupported), HasSubstr("attribute type 77"));
}

TEST(OnnxHostile, SparseAndOddConstants) {
  Msg sparse = add_graph().sub(15, Msg().sub(1, floats("thin", {1}, {1})));
  EXPECT_THAT(refusal(model(sparse), Code::kUnsupported), HasSubstr("'thin' is sparse"));
  const auto constant = [](const Msg& attribute) {
    return model(chain({node("Constant", {}, {"y"}, "c").sub(5, attribute)}));
  };
  EXPECT_THAT(refusal(constant(attr_s("value_string", "a")), Code::kUnsupported),
              HasSubstr("'value_string'"));
  EXPECT_THAT(refusal(model(chain({node("Constant", {}, {"y"}, "c")}))),
              HasSubstr("one attribute"));
}

TEST(OnnxHostile, Opsets) {
  EXPECT_THAT(refusal(model(add_graph(), 0)), HasSubstr("opset 0"));
  EXPECT_THAT(refusal(model(add_graph()).sub(8, opset(17, "ai.onnx"))),
              HasSubstr("as opset 18 and as opset 17"));
}

// Messages of these fields inside each other, the last one outermost, many times over. Written back
// to front: a message begins with its length.
Msg nested(const std::vector<uint32_t>& fields, int times) {
  std::string reversed;
  for (int i = 0; i < times; ++i) {
    for (const uint32_t field : fields) {
      const Msg head = Msg().varint(uint64_t{field} << 3 | 2).varint(reversed.size());
      reversed.append(head.bytes.rbegin(), head.bytes.rend());
    }
  }
  Msg out;
  out.bytes.assign(reversed.rbegin(), reversed.rend());
  return out;
}

TEST(OnnxHostile, NestedAHundredThousandDeep) {
  // AttributeProto.g, NodeProto.attribute, GraphProto.node
  EXPECT_THAT(refusal(model(nested({6, 5, 1}, 100000))), HasSubstr("nested more than 64 deep"));
  // TypeProto.sequence_type, its elem_type: what is no tensor is not looked into.
  const Msg deep = Msg().text(1, "deep").sub(2, nested({1, 4}, 100000));
  const ir::TensorGraph read = graph_of(add_graph().sub(11, deep));
  EXPECT_EQ(read.values[static_cast<size_t>(read.find("deep"))].type, ir::ElementType::kUndefined);
}

TEST(OnnxHostile, BombsOfEmptyParts) {
  Msg tensors;
  for (int i = 0; i < 2'000'000; ++i) tensors.bytes += std::string("\x2a\x00", 2);
  EXPECT_THAT(refusal(model(tensors), Code::kUnsupported), HasSubstr("far more memory"));
  Msg names;
  for (int i = 0; i < 5'000'000; ++i) names.bytes += std::string("\x0a\x00", 2);
  names.text(4, "Sum");
  EXPECT_THAT(refusal(model(Msg().sub(1, names)), Code::kUnsupported),
              HasSubstr("far more memory"));
}

TEST(OnnxHostile, DamagedFilesAreReadOrRefused) {
  Msg graph = add_graph();
  const Msg branch = Msg().sub(1, node("Neg", {"x"}, {"q"})).sub(12, Msg().text(1, "q"));
  graph.sub(1, node("If", {"x"}, {"z"}, "if").sub(5, attr_g("then_branch", branch)));
  graph.sub(1, node("F", {"x"}, {"v"}, "call", "own"));
  Msg file = model(graph);
  file.sub(25, Msg().text(1, "F").text(4, "a").text(5, "r").text(10, "own").sub(
                   7, node("Neg", {"a"}, {"r"})));
  const std::string whole = file.bytes;
  const auto start = std::chrono::steady_clock::now();
  int refused = 0;
  for (size_t i = 0; i < 8 * whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ (1 << i % 8));
    try {
      read_onnx_bytes(bytes_of(bytes), "t.onnx");
    } catch (const Error& error) {
      EXPECT_NE(error.code(), Code::kInternal) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace kvern::import::onnx
