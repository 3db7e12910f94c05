// Files that real exporters wrote (tests/golden/onnx, made by scripts/golden/onnx_zoo.py).
#include <filesystem>

#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

namespace fs = std::filesystem;

TEST(OnnxZoo, EveryExportIsRead) {
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(KVERN_TEST_DATA "/golden/onnx")) {
    if (!entry.is_directory()) continue;
    const std::string file = find_onnx(entry.path().string());
    ASSERT_FALSE(file.empty()) << entry.path();
    const OnnxModel read = read_onnx(file);
    ir::verify(read.model.graph);
    ++num_files;
    EXPECT_TRUE(read.warnings.empty()) << file << ": " << read.warnings.front();
    EXPECT_GE(read.model.opsets.at(""), 14) << file;
    EXPECT_GE(read.model.graph.inputs.size(), 1u) << file;
    int64_t num_weights = 0;
    for (const auto& [id, array] : read.model.graph.constants) {
      if (!ir::is_float(array.type()) || array.count() < 32) continue;
      ASSERT_TRUE(array.origin().has_value()) << file << ": " << read.model.graph.name_of(id);
      ++num_weights;
    }
    EXPECT_GE(num_weights, 10) << file;
  }
  EXPECT_GE(num_files, 15);
}

}  // namespace
}  // namespace kvern::import::onnx
