#include "compile/passes/pipeline.h"

#include <fmt/format.h>

#include "compile/passes/passes.h"
#include "kvern/error.h"

namespace kvern::passes {
namespace {

// Joins come before the fusions that look at what the linears feed; last_rows comes last because it
// moves whatever the fusions made.
constexpr Pass kPasses[] = {
    {"constant_folding", constant_folding},
    {"dead_code", dead_code},
    {"join_linears", join_linears},
    {"gate_mul", gate_mul},
    {"residual_norm", residual_norm},
    {"rope_append", rope_append},
    {"last_rows", last_rows},
};

}  // namespace

std::span<const Pass> all_passes() {
  return kPasses;
}

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : kPasses) {
    if (name == pass.name) return &pass;
  }
  return nullptr;
}

std::vector<PassReport> run_pipeline(ir::Graph& graph) {
  ir::verify(graph);
  std::vector<PassReport> reports;
  for (const Pass& pass : kPasses) {
    reports.push_back(pass.run(graph));
    reports.back().pass = pass.name;
    try {
      ir::verify(graph);
    } catch (const InternalError& error) {
      throw InternalError(fmt::format("after pass {}: {}", pass.name, error.what()));
    }
  }
  return reports;
}

}  // namespace kvern::passes
