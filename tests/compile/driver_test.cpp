// The order of a build's steps, where a wrong one would only be slow.
#include "compile/driver.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "plan/reader.h"
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

// Paths of a model and a plan that go with the object.
struct TinyBuild {
  BuildRequest request;
  TinyBuild() {
    const auto base =
        std::filesystem::temp_directory_path() / fmt::format("kvern_i8_{}", ::getpid());
    request.model_path = base.string() + ".gguf";
    request.plan_path = base.string() + ".plan";
    std::ofstream(request.model_path, std::ios::binary) << import::gguf::one_layer_llama().bytes();
  }
  ~TinyBuild() {
    std::filesystem::remove(request.model_path);
    std::filesystem::remove(request.plan_path);
  }
};

TEST(Driver, Int8ActivationsAreThoseOfEveryLinearButTheHead) {
  TinyBuild tiny;
  tiny.request.weights = quantize::WeightChoice::kInt8;
  const std::string key = build_key(tiny.request);
  tiny.request.activations = Activations::kInt8;
  EXPECT_NE(build_key(tiny.request), key);
  build(tiny.request);
  std::vector<std::string> tactics;
  const plan::PlanFile made(tiny.request.plan_path);
  for (const plan::Instruction& instruction : made.plan().program.instructions) {
    if (instruction.family == "linear") tactics.push_back(instruction.tactic);
  }
  ASSERT_GE(tactics.size(), 4u);
  EXPECT_EQ(tactics.back(), "cpu.linear.avx512bf16");
  tactics.pop_back();
  EXPECT_THAT(tactics, ::testing::Each("cpu.linear.i8.avx512vnni"));
}

TEST(Driver, LinearsAreJoinedWhereTheirWeightsAreStoredAlike) {
  EXPECT_THAT(report_of_mixed_model(quantize::WeightChoice::kKeep), HasSubstr("not joined"));
  EXPECT_THAT(report_of_mixed_model(quantize::WeightChoice::kBf16), Not(HasSubstr("not joined")));
}

}  // namespace
}  // namespace kvern::compile
