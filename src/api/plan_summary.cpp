#include "api/plan_summary.h"

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

}  // namespace

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

}  // namespace kvern
