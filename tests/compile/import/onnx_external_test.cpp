// External data: read where it may be, refused where it leads elsewhere.
#include <filesystem>

#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

Msg graph_of_tensors(const std::vector<Msg>& tensors) {
  Msg out = Msg().sub(1, node("Neg", {"x"}, {"y"}));
  for (const Msg& tensor : tensors) out.sub(5, tensor);
  return out.sub(11, Msg().text(1, "x")).sub(12, Msg().text(1, "y"));
}

// A tensor "w" of two floats.
Msg at(std::string_view location, std::string_view offset = "", std::string_view length = "") {
  return external(tensor_head("w", 1, {2}), location, offset, length);
}

class OnnxExternal : public testing::Test {
 protected:
  OnnxModel read(const std::vector<Msg>& tensors, const std::string& file = "m/model.onnx") {
    return read_onnx(folder.write(file, model(graph_of_tensors(tensors)).bytes));
  }
  std::string refused(const Msg& tensor, Code code = Code::kInvalidModel) {
    return refusal_of(code, [&] { read({tensor}); });
  }

  TempFolder folder;
  const std::string data = raw<float>({1, 2, 3, 4});
};

TEST_F(OnnxExternal, SeveralTensorsShareAFile) {
  folder.write("m/any name.bin", data);
  folder.write("m/sub/more", raw<int64_t>({7}));
  const OnnxModel model = read({at("any name.bin", "", "8"),
                                external(tensor_head("v", 1, {2}), "./any name.bin", "8", "8"),
                                external(tensor_head("n", 7, {1}), "sub/more", "0")});
  ASSERT_EQ(model.files.size(), 3u);
  const ir::TensorGraph& graph = model.model.graph;
  const ir::Array& v = graph.constants.at(graph.find("v"));
  EXPECT_THAT(graph.constants.at(graph.find("w")).as<float>(), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(v.as<float>(), ElementsAre(3.0F, 4.0F));
  EXPECT_THAT(graph.constants.at(graph.find("n")).to_i64(), ElementsAre(7));
  ASSERT_TRUE(v.origin().has_value());
  EXPECT_EQ(v.origin()->file, 1);
  EXPECT_EQ(v.origin()->offset, 8u);
  EXPECT_EQ(v.bytes().data(), model.files[1]->bytes().data() + 8) << "mapped, not copied";
}

TEST_F(OnnxExternal, MissingFilesAreNamed) {
  const std::string message = refused(at("model.onnx.data"), Code::kNotFound);
  EXPECT_THAT(message, HasSubstr("tensor 'w' lies in external file 'model.onnx.data'"));
  EXPECT_THAT(message, HasSubstr("copy it there beside the .onnx file"));
  refused(at("no/such/folder"), Code::kNotFound);
}

TEST_F(OnnxExternal, PathsOutsideAreRefused) {
  folder.write("secret", data);
  folder.write("m/sub/x", data);
  for (const char* location :
       {"../secret", "sub/../../secret", "sub/../x", "..", ".", "", "sub/.."}) {
    EXPECT_THAT(refused(at(location)), HasSubstr("must lie in the folder")) << location;
  }
  EXPECT_THAT(refused(at((folder.path / "secret").string())), HasSubstr("an absolute path"));
  EXPECT_THAT(refused(at(std::string("a\0b", 3))), HasSubstr("zero byte"));
  EXPECT_THAT(refused(at("sub")), HasSubstr("no regular file"));
}

TEST_F(OnnxExternal, LinksAreRefused) {
  folder.write("secret/data", data);
  folder.write("m/real", data);
  fs::create_symlink("../secret/data", folder.path / "m/soft");
  fs::create_symlink("real", folder.path / "m/inside");
  fs::create_directory_symlink("../secret", folder.path / "m/folder");
  fs::create_hard_link(folder.path / "secret/data", folder.path / "m/hard");
  for (const char* location : {"soft", "inside", "folder/data"}) {
    EXPECT_THAT(refused(at(location)), HasSubstr("is a symbolic link")) << location;
  }
  EXPECT_THAT(refused(at("hard")), HasSubstr("2 names (hard links)"));
}

// snapshots/REV/onnx/model.onnx_data -> ../../../blobs/…, as the hub's cache has it.
TEST_F(OnnxExternal, LinksOfAHubCacheMayLeadIntoItsBlobs) {
  const std::string blob = model(graph_of_tensors({at("model.onnx_data")})).bytes;
  folder.write("blobs/aa", blob);
  folder.write("blobs/bb", data);
  const fs::path snapshot = folder.path / "snapshots/rev/onnx";
  fs::create_directories(snapshot);
  fs::create_symlink("../../../blobs/aa", snapshot / "model.onnx");
  fs::create_symlink("../../../blobs/bb", snapshot / "model.onnx_data");
  const OnnxModel model = read_onnx((snapshot / "model.onnx").string());
  const ir::TensorGraph& graph = model.model.graph;
  EXPECT_THAT(graph.constants.at(graph.find("w")).as<float>(), ElementsAre(1.0F, 2.0F));
  fs::remove(snapshot / "model.onnx_data");
  folder.write("elsewhere/bb", data);
  fs::create_symlink("../../../elsewhere/bb", snapshot / "model.onnx_data");
  EXPECT_THAT(
      refusal_of(Code::kInvalidModel, [&] { read_onnx((snapshot / "model.onnx").string()); }),
      HasSubstr("symbolic link"));
}

TEST_F(OnnxExternal, OffsetsAndLengthsStayInside) {
  folder.write("m/d", data);
  EXPECT_THAT(refused(at("d", "-8")), HasSubstr("offset of its external data is '-8'"));
  EXPECT_THAT(refused(at("d", "8 ")), HasSubstr("a number of bytes"));
  EXPECT_THAT(refused(at("d", "99999999999999999999")), HasSubstr("a number of bytes"));
  EXPECT_THAT(refused(at("d", "0", "-1")), HasSubstr("length of its external data is '-1'"));
  EXPECT_THAT(refused(at("d", "0", "16")), HasSubstr("length 16, its dims and type take 8"));
  EXPECT_THAT(refused(at("d", "9")), HasSubstr("takes 8 bytes at offset 9"));
  EXPECT_THAT(refused(at("d", "18446744073709551615")), HasSubstr("which has 16 bytes"));
  EXPECT_THAT(refused(at("d").text(9, "12345678")), HasSubstr("elements in the file too"));
}

TEST_F(OnnxExternal, UnknownKeysAreWarnedAbout) {
  folder.write("m/d", data);
  const OnnxModel model = read(
      {at("d").sub(13, Msg().text(1, "checksum").text(2, "00")),
       external(tensor_head("v", 1, {2}), "d").sub(13, Msg().text(1, "basepath").text(2, "/"))});
  ASSERT_EQ(model.warnings.size(), 1u);
  EXPECT_THAT(model.warnings[0], HasSubstr("'basepath'"));
}

TEST_F(OnnxExternal, BytesInMemoryHaveNone) {
  const Msg file = model(graph_of_tensors({at("d")}));
  EXPECT_THAT(refusal(file), HasSubstr("without a folder"));
}

TEST_F(OnnxExternal, TensorsOfBodiesAreReadToo) {
  folder.write("m/d", data);
  const Msg branch = Msg().sub(5, at("d", "8")).sub(12, Msg().text(1, "w"));
  Msg graph = Msg().sub(1, node("If", {"c"}, {"y"}).sub(5, attr_g("then_branch", branch)));
  graph.sub(11, Msg().text(1, "c")).sub(12, Msg().text(1, "y"));
  const OnnxModel read = read_onnx(folder.write("m/model.onnx", model(graph).bytes));
  const auto body = read.model.graph.nodes.at(0).graph("then_branch");
  EXPECT_THAT(body->constants.at(body->find("w")).as<float>(), ElementsAre(3.0F, 4.0F));
}

}  // namespace
}  // namespace kvern::import::onnx
