// What a proof runs: prompts, steps and padding, as many as the model's size leaves time for; and
// both sides of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/eval/eval.h"
#include "compile/passes/token_form/inputs.h"
#include "compile/proof.h"

namespace kvern::compile {

struct ProofRun {
  std::vector<int64_t> steps;  // tokens: the prompt, then what follows with a cache
  std::vector<int64_t> pads;   // per sequence: tokens on the left that are none
  int64_t past = 0;            // rows of random caches before them
  double spread = 1;           // of the scores with their keys
  int64_t total() const;       // tokens, without that past
  int64_t batch() const { return static_cast<int64_t>(pads.size()); }
  bool is_padded() const;
  int64_t real_tokens() const;
  std::string text() const;  // "5 tokens, then 1, 3"
};

// DynamicQuantizeLinear over all tokens, and a plan that leaves activations unrounded.
bool has_shared_scales(const ir::TensorModel& model, const ProofOptions& options);

// False where the file rounds activations to less: half types, quantised ones.
bool computes_in_f32(const ir::TensorModel& model);

int64_t fixed_batch(const ir::TensorModel& model, const ProofOptions& options);  // 0: any

// Ids that the embedding has rows for: the logits may be wider.
int64_t num_ids(const passes::TokenForm& form, const ir::Graph& graph);

// What the model's size leaves, in tokens; a walk over all weights counts as several.
int64_t proof_budget(const ProofOptions& options);

// The runs for this file, most telling first, within `budget` but at least one. Throws
// Error(kUnsupported) where no run within it would tell: tables chosen by length.
std::vector<ProofRun> choose_runs(const ir::TensorModel& model, const passes::TokenForm& form,
                                  const ir::Graph& graph, const ProofOptions& options,
                                  int64_t budget, std::vector<std::string>& notes);

// Ids and logits of every sequence, pads included: [total], [total][vocabulary].
using Ids = std::vector<std::vector<int64_t>>;
using Logits = std::vector<std::vector<float>>;

// The file's graph, fed as its inputs say; without a cache by one run over all tokens. `past`: of
// every sequence, where the run has one.
Logits run_original(const ir::TensorModel& model, const passes::TokenForm& form,
                    const passes::TokenFormOptions& options, const ProofRun& run, const Ids& ids,
                    const eval::KvState& past = {});

// Token form, one sequence after the other, in two steps: the prompt and the rest. Rows of pads
// are empty: the logits begin with the first real token. Each begins with a copy of `kv`, which
// holds what the last one left afterwards.
Logits run_converted(const ir::Graph& graph, const quantize::Files& files, const ProofRun& run,
                     const Ids& ids, eval::KvState& kv);

}  // namespace kvern::compile
