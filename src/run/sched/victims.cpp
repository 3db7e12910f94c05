// Who gives pages up for others.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "run/sched/sequence.h"
#include "run/sched/step_in_making.h"

namespace kvern::sched {

// A page for one more token of `sequence`, from the victims where none is free. False when it was
// the last victim itself: it waits again, or fails when it ran alone.
bool Scheduler::make_room(Step& step, Sequence& sequence) {
  while (step.budget.fit(step.table(sequence), sequence.computed, 1) < 1) {
    if (reclaim_kept(step)) continue;
    const std::optional<size_t> victim = next_victim(step);
    if (!victim) {
      end(sequence, FinishReason::kKvExhausted,
          fmt::format("no KV page is left for token {} of the only running sequence; load the plan "
                      "with a larger KV capacity",
                      sequence.length()),
          Code::kInvalidRequest);
      return false;
    }
    preempt(step, *victim);
    if (!runs(sequence)) return false;
  }
  return true;
}

bool Scheduler::reclaim_kept(Step& step, SeqId except) {
  const auto at = std::find_if(kept_.begin(), kept_.end(), [except](const KeptContext& context) {
    return context.id != except;
  });
  if (at == kept_.end()) return false;
  release(step, at->id);
  kept_.erase(at);
  return true;
}

bool Scheduler::runs(const Sequence& sequence) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const SequencePtr& other) { return other.get() == &sequence; });
}

bool Scheduler::anything_runs() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const SequencePtr& s) { return !s->paused && !s->ended; });
}

// Index into running_ of the youngest paused sequence: it makes no use of what it holds.
std::optional<size_t> Scheduler::youngest_paused() const {
  for (size_t i = running_.size(); i-- > 0;) {
    if (running_[i]->paused && running_[i]->scheduled == 0) return i;
  }
  return std::nullopt;
}

std::optional<size_t> Scheduler::next_victim(const Step& step) const {
  if (const std::optional<size_t> paused = youngest_paused()) return paused;
  std::optional<size_t> cheapest;
  int64_t least = 0;
  for (size_t i = 1; i < running_.size(); ++i) {  // never the oldest
    const Sequence& sequence = *running_[i];
    if (sequence.scheduled > 0 || sequence.ended) continue;
    const int64_t cost = step.budget.tokens_alone(sequence.request.id, sequence.computed);
    if (cheapest && cost > least) continue;
    cheapest = i;
    least = cost;
  }
  return cheapest;
}

void Scheduler::preempt(Step& step, size_t index) {
  SequencePtr sequence = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(index));
  KVERN_CHECK(sequence->scheduled == 0, "a sequence of this batch is preempted");
  if (std::exchange(sequence->computed, 0) > 0) release(step, sequence->request.id);
  // Rows that already came out are not asked for again: next_row stays. Ids ascend with arrival:
  // it goes before whoever came later.
  const auto later = std::find_if(waiting_.begin(), waiting_.end(), [&](const SequencePtr& other) {
    return other->request.id > sequence->request.id;
  });
  waiting_.insert(later, std::move(sequence));
  ++preemptions_;
}

// Prompts that fill the pool together and leave none a page: kept contexts and then the victims
// give way, one at a time.
void Scheduler::resolve_deadlock(Step& step) {
  while (step.batch.sequences.empty() && anything_runs()) {
    if (!reclaim_kept(step)) {
      const std::optional<size_t> victim = next_victim(step);
      if (!victim) {
        end(*running_[0], FinishReason::kKvExhausted,
            fmt::format(
                "no KV page is left at token {} of the prompt; load the plan with a larger KV "
                "capacity",
                running_[0]->computed),
            Code::kInvalidRequest);
        drop_ended();
        return;
      }
      preempt(step, *victim);
    }
    add_prefills(step);
  }
}

}  // namespace kvern::sched
