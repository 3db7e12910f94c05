#include "tests/measure/smollm2.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/file.h"

namespace kvern::measure {
namespace {

namespace fs = std::filesystem;

// Removed when the process ends; tests of one binary share its plans.
struct PlanFolder {
  fs::path path = fs::temp_directory_path() / fmt::format("kvern_smollm2_{}", ::getpid());
  PlanFolder() { fs::create_directories(path); }
  ~PlanFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

std::string smollm2_path() {
  const char* given = std::getenv("KVERN_SMOLLM2");
  const std::string path =
      given != nullptr
          ? given
          : std::string(KVERN_TEST_DATA "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  return fs::exists(path) ? path : "";
}

std::shared_ptr<const plan::PlanFile> smollm2_plan(quantize::WeightChoice weights, DType kv,
                                                   Activations activations) {
  static const PlanFolder folder;
  static std::map<std::string, std::shared_ptr<const plan::PlanFile>> plans;
  const std::string name = fmt::format("{}_{}_{}", static_cast<int>(weights), dtype_name(kv),
                                       static_cast<int>(activations));
  std::shared_ptr<const plan::PlanFile>& plan = plans[name];
  if (plan == nullptr) {
    compile::BuildRequest request;
    request.model_path = smollm2_path();
    request.plan_path = (folder.path / (name + ".plan")).string();
    request.weights = weights;
    request.kv_storage = kv;
    request.activations = activations;
    request.max_context_length = 4096;
    compile::build(request);
    plan = std::make_shared<const plan::PlanFile>(request.plan_path);
  }
  return plan;
}

Json golden(const std::string& name) {
  return parse_json(read_text_file(KVERN_TEST_DATA "/golden/" + name, 16 << 20), name,
                    Code::kInvalidArgument);
}

}  // namespace kvern::measure
