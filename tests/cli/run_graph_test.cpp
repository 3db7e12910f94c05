// kvern run-graph: .npz in, .npz out, and messages that say what is wanted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compile/eval/tensor/npz.h"
#include "tests/cli/process.h"
#include "tests/compile/import/onnx_writer.h"

namespace kvern::cli_test {
namespace {

using ir::Array;
using ir::ElementType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace onnx = kvern::import::onnx;

class CliRunGraph : public ::testing::Test {
 protected:
  CliRunGraph() : model_(folder_.write("sum.onnx", onnx::model(onnx::add_graph()).bytes)) {}

  std::string write_input(const std::string& name, Shape shape, std::vector<float> values) {
    const std::string path = (folder_.path / "x.npz").string();
    eval::write_npz(path,
                    {{name, Array::of<float>(ElementType::kFloat, std::move(shape), values)}});
    return path;
  }

  onnx::TempFolder folder_;
  std::string model_;
  std::string outputs_ = (folder_.path / "y.npz").string();
};

TEST_F(CliRunGraph, WritesWhatTheGraphGives) {
  const std::string inputs = write_input("x", {1, 2}, {10, 20});
  const Outcome outcome = run({"run-graph", model_, "--inputs", inputs, "-o", outputs_, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"shape\": \"[1, 2]\""));
  const auto read = eval::read_npz(outputs_);
  const auto y = read.at("y").as<float>();
  EXPECT_THAT(std::vector<float>(y.begin(), y.end()), ElementsAre(11, 22));
}

TEST_F(CliRunGraph, NamesTheInputsThatAreWanted) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"run-graph", model_, "-o", outputs_},
        {"run-graph", model_, "--inputs", write_input("z", {1}, {1}), "-o", outputs_}}) {
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.err,
                HasSubstr("input 'x' is missing; the graph takes 'x' float[batch, 2]"));
  }
  const Outcome other =
      run({"run-graph", model_, "--inputs", write_input("x", {3}, {1, 2, 3}), "-o", outputs_});
  EXPECT_THAT(other.err, HasSubstr("must be float[batch, 2], got float[3]"));
}

TEST_F(CliRunGraph, WantsAPlaceForOutputs) {
  const Outcome outcome = run({"run-graph", model_});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("-o OUTPUTS.npz is wanted"));
}

TEST_F(CliRunGraph, OverwritesNothingThatItReads) {
  const std::string inputs = write_input("x", {1, 2}, {10, 20});
  for (const std::string& target : {model_, inputs, folder_.write("config.json", "{}")}) {
    const auto size = std::filesystem::file_size(target);
    const Outcome outcome = run({"run-graph", model_, "--inputs", inputs, "-o", target});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("would overwrite"));
    EXPECT_EQ(std::filesystem::file_size(target), size);
  }
  for (int i = 0; i < 2; ++i) {  // an older result is no source
    EXPECT_EQ(run({"run-graph", model_, "--inputs", inputs, "-o", outputs_}).exit_code, 0);
  }
}

TEST_F(CliRunGraph, ImpossibleSizesAreTheFilesFault) {
  const onnx::Msg graph = onnx::Msg()
                              .sub(1, onnx::node("Expand", {"x", "s"}, {"y"}, "e"))
                              .sub(5, onnx::ints("s", {2}, {int64_t{1} << 40, 2}))
                              .sub(11, onnx::value_info("x", 1, {"1", "2"}))
                              .sub(12, onnx::value_info("y", 1, {"a", "b"}));
  const std::string model = folder_.write("huge.onnx", onnx::model(graph).bytes);
  const Outcome outcome =
      run({"run-graph", model, "--inputs", write_input("x", {1, 2}, {1, 2}), "-o", outputs_});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("node 'e' (Expand"));
}

TEST_F(CliRunGraph, ShowsOpsetsAndOps) {
  const Outcome outcome = run({"run-graph", model_, "--opset-info"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("opset  ai.onnx 18"));
  EXPECT_THAT(outcome.out, HasSubstr("Add"));
}

TEST_F(CliRunGraph, AGraphWithAnUnknownOpNamesIt) {
  const onnx::Msg graph = onnx::Msg()
                              .sub(1, onnx::node("Frobnicate", {"x"}, {"y"}, "f"))
                              .sub(11, onnx::value_info("x", 1, {"2"}))
                              .sub(12, onnx::value_info("y", 1, {"2"}));
  const std::string model = folder_.write("odd.onnx", onnx::model(graph).bytes);
  const Outcome outcome =
      run({"run-graph", model, "--inputs", write_input("x", {2}, {1, 2}), "-o", outputs_});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("node 'f' (Frobnicate, opset 18) is not supported"));
  EXPECT_THAT(run({"run-graph", model, "--opset-info"}).out,
              HasSubstr("not supported in opset 18"));
}

}  // namespace
}  // namespace kvern::cli_test
