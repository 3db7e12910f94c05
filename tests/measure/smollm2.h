// Plans of the small real model, each built once per process into a folder that goes with it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/json.h"
#include "compile/driver.h"
#include "run/engine/engine.h"

namespace kvern::measure {

// $KVERN_SMOLLM2, else where scripts/fetch_model puts it; "" when there is none.
std::string smollm2_path();
std::shared_ptr<const plan::PlanFile> smollm2_plan(quantize::WeightChoice weights, DType kv,
                                                   Activations activations = Activations::kDefault);
Json golden(const std::string& name);

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (smollm2_path().empty()) GTEST_SKIP() << "the small model is not here: scripts/fetch_model";
  }
};

}  // namespace kvern::measure
