// How far one engine's predictions are from another's, teacher-forced on a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "run/engine/engine.h"

namespace kvern::measure {

struct Divergence {
  int64_t positions = 0;
  double mean_kl = 0;  // nats: mean over positions of sum p log(p / q), p the reference's
  double max_kl = 0;
  double top1_agreement = 0;        // share of positions where both choose the same id
  double reference_perplexity = 0;  // of the text, by the reference
  double candidate_perplexity = 0;
};

// Every position of `ids` but the last predicts its successor. Both engines run at once and their
// logits meet in a bounded queue, so that memory does not grow with the text. The vocabularies must
// be equal: Error(kInvalidArgument) otherwise. Throws as Engine::score.
Divergence divergence(engine::Engine& reference, engine::Engine& candidate,
                      const std::vector<int32_t>& ids);

}  // namespace kvern::measure
