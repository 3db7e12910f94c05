#include "kvern/plan.h"

#include <fmt/format.h>

#include "base/fields.h"
#include "base/json.h"
#include "compile/explain.h"
#include "plan/reader.h"

namespace kvern {
namespace {

// A decoded token reads every weight once per use, but of the embedding table one row.
uint64_t decode_weight_bytes(const plan::Plan& p) {
  uint64_t sum = 0;
  for (const plan::Instruction& instruction : p.program.instructions) {
    for (const plan::OperandRef& operand : instruction.inputs) {
      if (operand.kind != plan::OperandKind::kWeight) continue;
      const plan::Weight& weight = p.weights[static_cast<size_t>(operand.index)];
      const bool one_row = instruction.family == "embedding";
      sum +=
          one_row ? weight.size_bytes / static_cast<uint64_t>(weight.shape[0]) : weight.size_bytes;
    }
  }
  return sum;
}

PlanSummary summarise(const plan::PlanFile& file) {
  const plan::Plan& p = file.plan();
  PlanSummary s;
  s.model = p.model_name;
  s.family = p.family;
  s.weights = p.weight_format;
  s.num_parameters = p.num_parameters;
  s.num_layers = p.num_layers;
  s.hidden_size = p.hidden_size;
  s.vocabulary_size = p.vocabulary_size;
  s.max_context_length = p.profile.context_length.max;
  s.max_sequences = p.profile.sequences.max;
  s.max_tokens_per_step = p.profile.tokens.max;
  s.file_bytes = file.file_bytes();
  s.weight_bytes = plan::weights_bytes(p);
  s.synthetic = plan::is_synthetic(p);
  s.decode_weight_bytes = decode_weight_bytes(p);
  s.kv_bytes_per_token = static_cast<uint64_t>(p.kv_layout.bytes_per_token());
  s.page_tokens = p.kv_layout.page_tokens();
  if (!p.kv_layout.slots().empty()) {
    s.kv_format = dtype_name(p.kv_layout.slots()[0].k_format.storage);
  }
  s.sampling.temperature = p.generation.temperature;
  s.sampling.top_p = p.generation.top_p;
  s.sampling.top_k = static_cast<int32_t>(p.generation.top_k);
  s.sampling.min_p = p.generation.min_p;
  s.sampling.repetition_penalty = p.generation.repetition_penalty;
  s.has_tokenizer = !p.text.empty();
  s.has_chat_template = !p.text.chat_template.empty();
  return s;
}

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
