// Where a graph and the config.json beside it disagree: exporters freeze, drop or misplace what the
// configuration stands for. Kvern does what the graph says.
#pragma once

#include <string>
#include <vector>

#include "compile/import/config_facts.h"
#include "compile/passes/token_form/token_form.h"

namespace kvern::compile {

// One sentence each, naming both sides. `graph`: of the conversion, before or after passes.
std::vector<std::string> contradictions(const import::ConfigFacts& config,
                                        const passes::TokenForm& form, const ir::Graph& graph);

}  // namespace kvern::compile
