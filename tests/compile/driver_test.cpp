// The order of a build's steps, where a wrong one would only be slow.
#include "compile/driver.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/compile/import/gguf_builder.h"

namespace kvern::compile {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A Llama whose v is kept as F16 and whose q and k are F32.
std::string report_of_mixed_model(quantize::WeightChoice weights) {
  auto file = import::gguf::one_layer_llama();
  file.tensor("blk.0.attn_v.weight").type = 1;
  file.tensor("blk.0.attn_v.weight").bytes = 64;
  const auto base = std::filesystem::temp_directory_path() / fmt::format("kvern_{}", ::getpid());
  BuildRequest request;
  request.model_path = base.string() + ".gguf";
  request.plan_path = base.string() + ".plan";
  request.weights = weights;
  std::ofstream(request.model_path, std::ios::binary) << file.bytes();
  const std::string report = build(request).report;
  std::filesystem::remove(request.model_path);
  std::filesystem::remove(request.plan_path);
  return report;
}

TEST(Driver, LinearsAreJoinedWhereTheirWeightsAreStoredAlike) {
  EXPECT_THAT(report_of_mixed_model(quantize::WeightChoice::kKeep), HasSubstr("not joined"));
  EXPECT_THAT(report_of_mixed_model(quantize::WeightChoice::kBf16), Not(HasSubstr("not joined")));
}

}  // namespace
}  // namespace kvern::compile
