// What generic ops cost: shares of the step, and who is told.
#include "compile/generic_share.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/json.h"
#include "compile/driver.h"
#include "compile/tune/step_time.h"
#include "plan/reader.h"

namespace kvern::compile {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

plan::Program three_instructions() {
  plan::Program program;
  for (const char* family : {"linear", "map", "select"}) {
    plan::Instruction instruction;
    instruction.family = family;
    instruction.source = fmt::format("layers.0.{}", family);
    program.instructions.push_back(std::move(instruction));
  }
  return program;
}

TEST(GenericShare, IsOfTheWholeStep) {
  const GenericShare share = measured_share(three_instructions(), {60, 10, 30});
  EXPECT_DOUBLE_EQ(share.total, 0.4);
  ASSERT_EQ(share.lines.size(), 2u);
  EXPECT_EQ(share.lines[0].source, "layers.0.select");
  EXPECT_DOUBLE_EQ(share.lines[0].share, 0.3);
}

TEST(GenericShare, WarnsAboveATenthAndNamesTheLargest) {
  EXPECT_EQ(generic_warning(measured_share(three_instructions(), {95, 2, 3})), "");
  EXPECT_THAT(generic_warning(measured_share(three_instructions(), {80, 5, 15})),
              AllOf(HasSubstr("20 %"), HasSubstr("layers.0.select (select, 15.0 %)")));
}

TEST(GenericShare, EveryInstructionOfAStepIsTimed) {
  BuildRequest request;
  request.model_path = KVERN_TEST_DATA "/golden/onnx/mistral__ts17";
  request.plan_path =
      (std::filesystem::temp_directory_path() / fmt::format("kvern_share_{}.plan", ::getpid()))
          .string();
  const BuildResult result = build(request);
  const plan::PlanFile file(request.plan_path);
  std::filesystem::remove(request.plan_path);
  const plan::Plan& plan = file.plan();
  const std::vector<double> times =
      tune::time_decode_step(plan.program, plan.weights, plan.kv_layout, 70);
  ASSERT_EQ(times.size(), plan.program.instructions.size());
  for (const double time : times) {
    EXPECT_GT(time, 0);
    EXPECT_LT(time, 1e6);
  }
  // The plan is the same on every machine; only who builds is told times.
  EXPECT_THAT(result.report, HasSubstr("\"seconds\""));
  EXPECT_THAT(plan.import_report, Not(HasSubstr("\"seconds\"")));
  EXPECT_THAT(plan.import_report, HasSubstr("\"share_is\": \"estimated by bytes\""));
}

TEST(GenericShare, DynamicQuantisationSaysHowFarThePlanIs) {
  BuildRequest request;
  request.model_path = KVERN_TEST_DATA "/golden/onnx/llama_gqa__int8_dynamic";
  request.plan_path =
      (std::filesystem::temp_directory_path() / fmt::format("kvern_kl_{}.plan", ::getpid()))
          .string();
  request.tensor_form.per_token_dynamic_quant = true;
  const Json report = parse_json(build(request).report, "report", Code::kInvalidModel);
  std::filesystem::remove(request.plan_path);
  const Json& proof = report.at("onnx").at("proof");
  EXPECT_EQ(proof.at("kl_of_per_token_scales").at("tokens"), 17);
  EXPECT_GT(proof.at("kl_of_per_token_scales").at("mean").get<double>(), 0);
  EXPECT_LT(proof.at("kl_of_per_token_scales").at("max").get<double>(), 0.1);
}

}  // namespace
}  // namespace kvern::compile
