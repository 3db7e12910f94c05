// What the build did with the model, as JSON: per tensor, per weight, per pass.
#pragma once

#include <string>
#include <vector>

#include "compile/generic_share.h"
#include "compile/import/import.h"
#include "compile/passes/pipeline.h"
#include "compile/proof.h"
#include "compile/quantize/materialize.h"

namespace kvern::compile {

// Of a model in tensor form.
struct OnnxFacts {
  const passes::TokenForm* form = nullptr;  // nullptr: the model was none
  Proof proof;
  GenericShare generic;                   // by bytes
  GenericShare generic_here;              // by time, where there are any
  std::vector<std::string> not_compared;  // by the proof: what the plan rounds besides
  // Times are said too: of a report for who builds, not of the plan's, which is the same
  // everywhere.
  bool of_this_machine = false;
};

std::string write_report(const import::ImportedModel& model,
                         const std::vector<passes::PassReport>& passes,
                         const std::vector<quantize::WeightNote>& weights,
                         const OnnxFacts& onnx = {});

}  // namespace kvern::compile
