// Scheduler::next: which tokens of which sequences make the next step.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "run/sched/sequence.h"
#include "run/sched/step_in_making.h"

namespace kvern::sched {
namespace {

// Rows of logits that the part's tokens owe, as Sequence::limit_to_rows counts them.
int32_t ask_for_rows(const Sequence& sequence, step::SequenceInput& part) {
  const bool samples = !sequence.exports() && part.count == sequence.remaining();
  if (sequence.exports()) {
    const std::vector<int32_t>& rows = sequence.request.export_rows;
    for (size_t r = sequence.next_row; r < rows.size() && rows[r] < part.start + part.count; ++r) {
      part.logits_rows.push_back(rows[r] - part.start);
    }
  } else if (const int32_t rows = sequence.prompt_rows(part.count); rows > 0) {
    part.purpose = step::Purpose::kLogprobs;
    const int32_t first = std::max(part.start, sequence.next_prompt_row);
    for (int32_t at = first; at < first + rows; ++at) {
      part.logits_rows.push_back(at - part.start);
      part.targets.push_back(sequence.ids[static_cast<size_t>(at) + 1]);
    }
    if (samples) {
      part.logits_rows.push_back(part.count - 1);
      part.targets.push_back(step::kToBeSampled);
    }
  } else if (samples) {
    part.logits = step::LogitsWanted::kLast;
    return 1;
  }
  if (!part.logits_rows.empty()) part.logits = step::LogitsWanted::kList;
  return static_cast<int32_t>(part.logits_rows.size());
}

}  // namespace

step::StepBatch Scheduler::next(const kv::PagePool& pages) {
  Step step(pages);
  step.tokens_left = options_.max_tokens_per_step;
  step.prefill_left = options_.prefill_chunk_tokens;
  step.rows_left = options_.max_wanted_rows;
  const int64_t preemptions_before = preemptions_;
  last_releases_.clear();
  flush_releases(step);
  add_decodes(step);
  flush_releases(step);  // of one that failed just now: who waits must not fail for its pages
  add_prefills(step);
  // Who had to give way for others in this step does not come back in it.
  if (preemptions_ == preemptions_before) admit(step);
  resolve_deadlock(step);
  if (step.batch.sequences.empty()) {
    flush_releases(step);  // of those that failed just now: nobody may come for them later
    admit(step);
  }
  drop_ended();
  return std::move(step.batch);
}

void Scheduler::flush_releases(Step& step) {
  for (const SeqId id : std::exchange(to_release_, {})) release(step, id);
  for (const SeqId id : std::exchange(to_close_, {})) step.batch.closed.push_back(id);
}

void Scheduler::release(Step& step, SeqId id) {
  if (step.budget.released(id)) return;
  step.batch.released.push_back(id);
  last_releases_.push_back(id);
  step.budget.release(id);
}

void Scheduler::add_decodes(Step& step) {
  std::vector<Sequence*> decodes;
  for (const SequencePtr& sequence : running_) {
    if (sequence->decodes() && !sequence->paused) decodes.push_back(sequence.get());
  }
  for (Sequence* sequence : decodes) {
    if (runs(*sequence) && make_room(step, *sequence)) {
      add_part(step, *sequence, step.table(*sequence), 1);
    }
  }
  drop_ended();
}

void Scheduler::add_prefills(Step& step) {
  for (const SequencePtr& sequence : running_) {
    if (sequence->paused || sequence->scheduled > 0 || sequence->decodes()) continue;
    const kv::PageTable& table = step.table(*sequence);
    const int32_t count = prefill_count(step, *sequence, table, step.budget);
    if (count > 0) add_part(step, *sequence, table, count);
  }
}

void Scheduler::add_part(Step& step, Sequence& sequence, const kv::PageTable& table,
                         int32_t count) {
  const SeqId id = sequence.request.id;
  if (!sequence.started) {
    step.batch.opened.push_back({id, sequence.request.sampling, {}, {}});
    if (sequence.request.sampling.repeats_matter()) {
      step.batch.opened.back().prompt_ids = sequence.request.prompt_ids;
    }
    events_.push_back({id, EventKind::kStarted, -1, 0, {}, {}, {}, {}, {}, sequence.computed});
    sequence.started = true;
  }
  step::SequenceInput part;
  part.seq = id;
  part.start = sequence.computed;
  part.count = count;
  part.purpose = sequence.request.purpose;
  part.num_logprobs = sequence.request.num_logprobs;
  part.cache = sequence.caches();
  const auto first = sequence.ids.begin() + sequence.computed;
  part.ids.assign(first, first + count);
  step.rows_left -= ask_for_rows(sequence, part);
  if (std::optional<kv::Need> need = step.budget.grow(id, table, part.start, count)) {
    step.batch.page_needs.push_back(std::move(*need));
  }
  if (!sequence.decodes()) step.prefill_left -= count;
  step.tokens_left -= count;
  sequence.scheduled = count;
  step.batch.sequences.push_back(std::move(part));
}

int32_t Scheduler::prefill_count(const Step& step, const Sequence& sequence,
                                 const kv::PageTable& table, const kv::PageBudget& budget) const {
  const int32_t most = std::min({sequence.remaining(), step.prefill_left, step.tokens_left});
  if (most <= 0) return 0;
  const auto count = static_cast<int32_t>(budget.fit(table, sequence.computed, most));
  return sequence.limit_to_rows(count, step.rows_left);
}

}  // namespace kvern::sched
