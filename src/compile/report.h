// What the build did with the model, as JSON: per tensor, per weight, per pass.
#pragma once

#include <string>
#include <vector>

#include "compile/import/import.h"
#include "compile/passes/pipeline.h"
#include "compile/quantize/materialize.h"

namespace kvern::compile {

std::string write_report(const import::ImportedModel& model,
                         const std::vector<passes::PassReport>& passes,
                         const std::vector<quantize::WeightNote>& weights);

}  // namespace kvern::compile
