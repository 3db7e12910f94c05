// Two gigabytes of weights stay in the file: an import takes anonymous memory for the graph alone.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compile/import/import.h"
#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // builds with sanitizers copy what is not aligned
#else
constexpr bool kSanitized = false;
#endif
constexpr int64_t kRows = 1900;  // of 1 MiB
constexpr uint64_t kWeightBytes = uint64_t{kRows} << 20;

// Anonymous memory of this process in bytes.
uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  uint64_t kilobytes = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kilobytes;
  }
  return kilobytes << 10;
}

// The most that a load holds beyond what was there before.
uint64_t growth_of_load(const std::string& path) {
  const uint64_t before = anonymous_bytes();
  uint64_t most = before;
  LoadOptions options;
  options.progress = [&](uint64_t, uint64_t) { most = std::max(most, anonymous_bytes()); };
  const ImportedModel model = load(path, options);
  EXPECT_EQ(model.num_parameters, static_cast<int64_t>(kWeightBytes / 4));
  most = std::max(most, anonymous_bytes());
  return most - before;
}

Msg graph_before_weight() {
  return Msg().sub(1, node("Neg", {"w"}, {"y"})).sub(12, Msg().text(1, "y"));
}

// Weights are holes: the files take no space on the disk.
TEST(SlowOnnxMemory, WeightsInTheFileAreNotCopied) {
  if (kSanitized) GTEST_SKIP() << "memory is measured without sanitizers";
  const TempFolder folder;
  Msg tensor = tensor_head("w", 1, {kRows, 1 << 18});
  tensor.varint(9 << 3 | 2).varint(kWeightBytes);
  Msg graph = graph_before_weight();
  graph.varint(5 << 3 | 2).varint(tensor.bytes.size() + kWeightBytes);
  graph.bytes += tensor.bytes;
  Msg file = Msg().num(1, 8).sub(8, opset(18));
  file.varint(7 << 3 | 2).varint(graph.bytes.size() + kWeightBytes);
  file.bytes += graph.bytes;
  const std::string path = folder.write("model.onnx", file.bytes);
  std::filesystem::resize_file(path, file.bytes.size() + kWeightBytes);
  EXPECT_LT(growth_of_load(path), kWeightBytes / 100);
}

TEST(SlowOnnxMemory, ExternalWeightsAreNotCopied) {
  if (kSanitized) GTEST_SKIP() << "memory is measured without sanitizers";
  const TempFolder folder;
  Msg graph = graph_before_weight();
  graph.sub(5, external(tensor_head("w", 1, {kRows, 1 << 18}), "model.data"));
  const std::string path = folder.write("model.onnx", model(graph).bytes);
  std::filesystem::resize_file(folder.write("model.data", ""), kWeightBytes);
  EXPECT_LT(growth_of_load(path), kWeightBytes / 100);
}

}  // namespace
}  // namespace kvern::import::onnx
