// Building from a Hugging Face folder: the plan may lie in it, but not in place of one of its
// files.
#include <gtest/gtest.h>

#include "compile/driver.h"
#include "plan/reader.h"
#include "tests/compile/import/hf_builder.h"

namespace kvern::compile {
namespace {

TEST(FolderBuild, APlanNeverReplacesAFileOfItsModel) {
  const import::hf::TestFolder folder("build_folder");
  folder.write("config.json", import::hf::llama_config().dump());
  folder.write("model.safetensors", import::hf::llama_tensors().bytes());
  folder.write("generation_config.json", R"({"do_sample": true, "temperature": 0.7})");
  BuildRequest request;
  request.model_path = folder.path.string();
  for (const char* file : {"config.json", "model.safetensors"}) {
    request.plan_path = (folder.path / file).string();
    const auto bytes_before = std::filesystem::file_size(request.plan_path);
    EXPECT_THROW(build(request), Error) << file;
    EXPECT_EQ(std::filesystem::file_size(request.plan_path), bytes_before);
  }
  request.plan_path = (folder.path / "model.plan").string();
  for (int i = 0; i < 2; ++i) build(request);  // an older plan may be replaced
  const plan::PlanFile plan(request.plan_path);
  EXPECT_EQ(plan.plan().generation.temperature, 0.7);
  EXPECT_EQ(plan.plan().family, "llama");
}

TEST(FolderBuild, TheKeyFollowsTheSamplingDefaults) {
  const import::hf::TestFolder folder("build_key");
  folder.write("config.json", import::hf::llama_config().dump());
  folder.write("model.safetensors", import::hf::llama_tensors().bytes());
  BuildRequest request;
  request.model_path = folder.path.string();
  const std::string plain = build_key(request);
  EXPECT_EQ(build_key(request), plain);
  folder.write("generation_config.json", R"({"do_sample": true, "temperature": 0.7})");
  EXPECT_NE(build_key(request), plain);
}

}  // namespace
}  // namespace kvern::compile
