// Every weight of the real model becomes bytes; what is kept is kept exactly.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "compile/import/import.h"
#include "compile/quantize/materialize.h"

namespace kvern::quantize {
namespace {

std::string model_path() {
  const char* given = std::getenv("KVERN_SMOLLM2");
  if (given != nullptr && *given != '\0') return given;
  return KVERN_TEST_DATA "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

TEST(E2eSmolLm2Quantize, KeepIsExactAndInt8IsClose) {
  if (!std::filesystem::exists(model_path())) GTEST_SKIP() << "no " << model_path();
  import::ImportedModel model = import::load(model_path());
  for (const WeightChoice choice : {WeightChoice::kKeep, WeightChoice::kInt8}) {
    std::vector<WeightNote> notes = apply(model.graph, choice);
    ASSERT_EQ(notes.size(), model.graph.weights.size());
    // A sample: every seventh weight covers all kinds.
    for (size_t i = 0; i < notes.size(); i += 7) {
      const ir::Weight& weight = model.graph.weights[i];
      const kernels::CodedRows stored = materialize(model.graph, weight, model.files);
      measure_error(model.graph, weight, model.files, stored, notes[i]);
      if (choice == WeightChoice::kKeep) {
        EXPECT_TRUE(notes[i].exact) << notes[i].name;
        EXPECT_EQ(notes[i].max_error, 0) << notes[i].name << " " << notes[i].to;
      } else {
        EXPECT_LT(notes[i].rms_error, 0.01) << notes[i].name << " " << notes[i].to;
      }
      EXPECT_EQ(notes[i].exact, notes[i].max_error == 0) << notes[i].name;
    }
  }
}

}  // namespace
}  // namespace kvern::quantize
