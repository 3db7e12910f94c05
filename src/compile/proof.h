// Proves a conversion by numbers: the file's graph run as it is written, through its own interface,
// and the graph that the plan is made of, on the same random prompts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compile/passes/token_form/token_form.h"
#include "compile/quantize/materialize.h"

namespace kvern::compile {

struct ProofOptions {
  passes::TokenFormOptions conversion;  // that the graph was converted with
  int64_t num_parameters = 0;           // decide how many tokens are afforded
  // Of a rope whose frequencies the graph chooses by length: where it switches. 0: unknown.
  int64_t original_context_length = 0;
  // progress(done, total) tokens; may be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

struct Proof {
  std::string status = "skipped";  // or "passed"
  int64_t token_budget = 0;        // that the model's size leaves; a step costs some too
  int64_t tokens = 0;              // whose logits were compared
  std::vector<int64_t> lengths;    // of the prompts, with the random rows before them
  std::vector<std::string> runs;   // "5 tokens, then 1, 3"
  double tolerance = 0;            // of |difference|, relative to the largest logit of a run
  std::string tolerance_of;        // "f32", "f16", …: what the file computes in
  double max_abs_diff = 0;
  double max_rel_diff = 0;  // to the largest logit of the run
  // Where per-token scales were asked for: KL(file as written || plan) of next tokens, in nats.
  int64_t kl_tokens = 0;
  double kl_mean = 0, kl_max = 0;
  double seconds = 0;              // not for a plan, which holds no time
  std::vector<std::string> notes;  // what was left out and why
};

// `graph` computes the logits of `form`, before or after passes; `files` are those of its weights.
// Throws Error(kUnsupported) naming run, token and both numbers where they differ, and where
// nothing could be compared.
Proof prove(const ir::TensorModel& model, const passes::TokenForm& form, const ir::Graph& graph,
            const quantize::Files& files, const ProofOptions& options);

}  // namespace kvern::compile
