#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/build.h"
#include "kvern/plan.h"

namespace kvern::cli {
namespace {

struct Flags {
  std::string plan;
  std::string why;
  bool why_given = false;
  bool graph = false;
  bool json = false;
};

std::string table(const Plan& plan) {
  const PlanSummary& s = plan.summary();
  std::string out;
  const auto row = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<20} {}\n", name, value);
  };
  row("model", fmt::format("{} ({}){}", s.model, s.family,
                           s.synthetic ? ", SYNTHETIC weights drawn from a seed" : ""));
  row("parameters", fmt::format("{:.1f} M in {} layers, hidden size {}, vocabulary {}",
                                static_cast<double>(s.num_parameters) / 1e6, s.num_layers,
                                s.hidden_size, s.vocabulary_size));
  row("file", show_bytes(s.file_bytes));
  row("weights", fmt::format("{} ({}), {} read per decoded token", show_bytes(s.weight_bytes),
                             s.weights, show_bytes(s.decode_weight_bytes)));
  row("KV cache", fmt::format("{}, {} per token, pages of {} tokens", s.kv_format,
                              show_bytes(s.kv_bytes_per_token), s.page_tokens));
  row("context length", fmt::format("{} tokens", s.max_context_length));
  row("profile", fmt::format("up to {} sequences and {} tokens per step", s.max_sequences,
                             s.max_tokens_per_step));
  row("tokenizer", s.has_tokenizer ? "yes" : "no: token ids only");
  row("chat template", s.has_chat_template ? "yes" : "no");
  if (const std::string import = import_table(plan.report_json()); !import.empty()) {
    out += "\n" + import;
  }
  const std::vector<std::string> warnings = report_warnings(plan.report_json());
  if (!warnings.empty()) out += fmt::format("\nwarnings:\n  {}\n", fmt::join(warnings, "\n  "));
  out += "\nprogram:\n";
  for (const PlanInstruction& i : plan.instructions()) {
    out += fmt::format("  {:<28} {:<14} {}\n", i.source, i.family, i.tactic);
  }
  return out;
}

int inspect(const Flags& flags) {
  const Plan plan = Plan::open(flags.plan);
  if (flags.why_given) {
    print(plan.why(flags.why));
  } else if (flags.graph) {
    print(plan.graph_text() + "\n");
  } else {
    print(flags.json ? plan.to_json() + "\n" : table(plan));
  }
  return kOk;
}

}  // namespace

std::function<int()> setup_inspect(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PLAN", flags->plan, "Plan file")->required();
  auto* why = app.add_option("--why", flags->why,
                             "How this value is computed, by what and why: layers.0.attn.qkv");
  auto* graph = app.add_flag("--graph", flags->graph, "Print the compiled graph")->excludes(why);
  app.add_flag("--json", flags->json, "Print everything but the graph as JSON")
      ->excludes(why)
      ->excludes(graph);
  return [=] {
    flags->why_given = why->count() > 0;
    return inspect(*flags);
  };
}

}  // namespace kvern::cli
