// The whole zoo, which is not committed: KVERN_ONNX_ZOO names its folder
// (scripts/golden/onnx_zoo.py makes it), KVERN_ONNX_ZOO_ONLY a part of "model/style",
// KVERN_ONNX_ZOO_RESULTS a file that gets one JSON line per pair, from which
// scripts/golden/onnx_support.py makes docs/onnx_support.md.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "tests/onnx_zoo/zoo_check.h"

namespace kvern::zoo {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* given = std::getenv(name);
  return given == nullptr ? "" : given;
}

Json line_of(const std::string& model, const std::string& style, const Outcome& outcome,
             double seconds) {
  Json out;
  out["model"] = model;
  out["style"] = style;
  out["state"] = state_name(outcome.state);
  out["message"] = outcome.message;
  out["worst_logit"] = outcome.worst_logit;
  out["compared_ids"] = outcome.compared_ids;
  out["seconds"] = seconds;
  return out;
}

// What tokens cannot have each for themselves, or no attention over pages computes.
bool is_wanted_refusal(const std::string& style, const Outcome& outcome) {
  if (outcome.state != State::kRefused) return false;
  if (style == "int8_qdq_all") return outcome.message.find("node '") != std::string::npos;
  return style == "int8_dynamic" &&
         outcome.message.find("DynamicQuantizeLinear") != std::string::npos;
}

TEST(SlowOnnxZoo, EveryPairThatOnnxRuntimeRuns) {
  const std::string folder = environment("KVERN_ONNX_ZOO");
  if (folder.empty()) GTEST_SKIP() << "KVERN_ONNX_ZOO is not set (scripts/golden/onnx_zoo.py)";
  const std::string only = environment("KVERN_ONNX_ZOO_ONLY");
  std::ofstream results(environment("KVERN_ONNX_ZOO_RESULTS"));
  const Json index = parse_json(read_text_file(folder + "/index.json", 64 << 20), "index.json",
                                Code::kInvalidArgument);
  int num_right = 0, num_pairs = 0;
  for (const Json& entry : index) {
    if (entry.value("ort", "") != "runs") continue;
    const auto model = entry.at("model").get<std::string>();
    const auto style = entry.at("style").get<std::string>();
    if ((model + "/" + style).find(only) == std::string::npos) continue;
    if (only.empty() && model == "smollm2") continue;  // 135M: tests of its own
    const auto begin = std::chrono::steady_clock::now();
    const std::string path =
        (fs::path(folder) / entry.at("path").get<std::string>()).parent_path().string();
    if (!fs::exists(path + "/oracle.json")) {
      ADD_FAILURE() << path << " lacks oracle.json: onnx_zoo.py --oracle";
      continue;
    }
    const Outcome outcome = check_export(path, options_of_style(style));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    results << line_of(model, style, outcome, took.count()).dump() << std::endl;
    ++num_pairs;
    num_right += outcome.state == State::kRight ? 1 : 0;
    const bool wanted = outcome.state == State::kRight || is_wanted_refusal(style, outcome);
    EXPECT_TRUE(wanted) << model << "/" << style << " " << state_name(outcome.state) << ": "
                        << outcome.message;
  }
  std::printf("%d of %d pairs are right\n", num_right, num_pairs);
}

}  // namespace
}  // namespace kvern::zoo
