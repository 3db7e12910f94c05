#include "kvern/plan.h"

#include <fmt/format.h>

#include "api/plan_summary.h"
#include "base/fields.h"
#include "base/json.h"
#include "compile/explain.h"
#include "plan/reader.h"

namespace kvern {
namespace {

// Descs travel by field number; the names are the kernels' own and not needed here.
std::string describe(const plan::Instruction& instruction) {
  std::vector<NamedField> fields = instruction.desc;
  for (NamedField& field : fields) {
    if (field.name.empty()) field.name = fmt::format("{}", field.number);
  }
  return print_fields(fields);
}

}  // namespace

struct Plan::State {
  explicit State(const std::string& path) : file(path), summary(summarise(file)) {}
  plan::PlanFile file;
  PlanSummary summary;
};

Plan::Plan(std::unique_ptr<State> state) : state_(std::move(state)) {}
Plan::~Plan() = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;

Plan Plan::open(const std::string& path) {
  return Plan(std::make_unique<State>(path));
}

const PlanSummary& Plan::summary() const {
  return state_->summary;
}

std::vector<PlanInstruction> Plan::instructions() const {
  std::vector<PlanInstruction> out;
  for (const plan::Instruction& i : state_->file.plan().program.instructions) {
    out.push_back({i.source, i.family, i.tactic, describe(i)});
  }
  return out;
}

std::string Plan::manifest_json() const {
  return state_->file.manifest();
}
std::string Plan::report_json() const {
  return state_->file.plan().import_report;
}
std::string Plan::why(std::string_view value) const {
  return compile::explain(state_->file.plan(), value);
}

std::string Plan::graph_text() const {
  return state_->file.plan().graph_text;
}

std::string Plan::to_json() const {
  const PlanSummary& s = state_->summary;
  Json json;
  json["manifest"] = parse_json(manifest_json(), "manifest", Code::kInvalidPlan);
  json["profile"] = {{"max_context_length", s.max_context_length},
                     {"max_sequences", s.max_sequences},
                     {"max_tokens_per_step", s.max_tokens_per_step}};
  json["bytes"] = {{"file", s.file_bytes},
                   {"weights", s.weight_bytes},
                   {"weights_per_decoded_token", s.decode_weight_bytes},
                   {"kv_per_token", s.kv_bytes_per_token}};
  json["kv"] = {{"format", s.kv_format}, {"page_tokens", s.page_tokens}};
  json["tokenizer"] = s.has_tokenizer;
  json["chat_template"] = s.has_chat_template;
  json["weights"] = Json::array();
  for (const plan::Weight& w : state_->file.plan().weights) {
    json["weights"].push_back({{"name", w.name},
                               {"shape", w.shape},
                               {"format", to_string(w.format)},
                               {"packing", w.packing},
                               {"bytes", w.size_bytes}});
  }
  json["program"] = Json::array();
  for (const PlanInstruction& i : instructions()) {
    json["program"].push_back({{"source", i.source}, {"family", i.family}, {"tactic", i.tactic}});
  }
  json["report"] = parse_json(report_json(), "import report", Code::kInvalidPlan);
  return dump_json(json, 1);
}

}  // namespace kvern
