// Scheduler::next: which tokens of which sequences make the next step.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "run/sched/scheduler.h"
#include "run/sched/sequence.h"

namespace kvern::sched {

struct Scheduler::Step {
  step::StepBatch batch;
  std::vector<int32_t> pages_left;  // by KV group, released ones included
  int32_t tokens_left = 0;
  int32_t prefill_left = 0;
  int32_t rows_left = 0;
};

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

step::StepBatch Scheduler::next(std::span<const int32_t> available) {
  KVERN_CHECK(available.size() == options_.page_tokens.size(), "{} KV groups, {} page lengths",
              available.size(), options_.page_tokens.size());
  Step step;
  step.pages_left.assign(available.begin(), available.end());
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
  for (const Release& release : std::exchange(to_release_, {})) note_release(step, release);
  for (const SeqId id : std::exchange(to_close_, {})) step.batch.closed.push_back(id);
}

void Scheduler::note_release(Step& step, Release release) {
  step.batch.released.push_back(release.seq);
  last_releases_.push_back(release);
  for (size_t g = 0; g < step.pages_left.size(); ++g) {
    step.pages_left[g] += pages_for(release.tokens, g);
  }
}

void Scheduler::add_decodes(Step& step) {
  std::vector<Sequence*> decodes;
  for (const SequencePtr& sequence : running_) {
    if (sequence->decodes() && !sequence->paused) decodes.push_back(sequence.get());
  }
  for (Sequence* sequence : decodes) {
    if (runs(*sequence) && make_room(step, *sequence)) add_part(step, *sequence, 1);
  }
  drop_ended();
}

// A page for one more token of `sequence`, from the victims where none is free. False when it was
// the last victim itself: it waits again, or fails when it ran alone.
bool Scheduler::make_room(Step& step, Sequence& sequence) {
  while (tokens_that_fit(step, sequence) < 1) {
    if (running_.size() == 1) {
      end(sequence, FinishReason::kKvExhausted,
          fmt::format("no KV page is left for token {} of the only running sequence; load the plan "
                      "with a larger KV capacity",
                      sequence.length()),
          Code::kInvalidRequest);
      return false;
    }
    preempt(step, next_victim());
    if (!runs(sequence)) return false;
  }
  return true;
}

bool Scheduler::runs(const Sequence& sequence) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const SequencePtr& other) { return other.get() == &sequence; });
}

// Index into running_ of the youngest paused sequence: it makes no use of what it holds.
std::optional<size_t> Scheduler::youngest_paused() const {
  for (size_t i = running_.size(); i-- > 0;) {
    if (running_[i]->paused) return i;
  }
  return std::nullopt;
}

size_t Scheduler::next_victim() const {
  return youngest_paused().value_or(running_.size() - 1);
}

void Scheduler::preempt(Step& step, size_t index) {
  SequencePtr sequence = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(index));
  KVERN_CHECK(sequence->scheduled == 0, "a sequence of this batch is preempted");
  if (sequence->computed > 0) {
    note_release(step, {sequence->request.id, std::exchange(sequence->computed, 0)});
  }
  // Rows that already came out are not asked for again: next_row stays. Ids ascend with arrival:
  // it goes before whoever came later.
  const auto later = std::find_if(waiting_.begin(), waiting_.end(), [&](const SequencePtr& other) {
    return other->request.id > sequence->request.id;
  });
  waiting_.insert(later, std::move(sequence));
  ++preemptions_;
}

void Scheduler::add_prefills(Step& step) {
  for (const SequencePtr& sequence : running_) {
    if (sequence->paused || sequence->scheduled > 0 || sequence->decodes()) continue;
    const int32_t count = prefill_count(step, *sequence);
    if (count > 0) add_part(step, *sequence, count);
  }
}

void Scheduler::admit(Step& step) {
  while (step.tokens_left > 0 && step.prefill_left > 0) {
    const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                                 [](const SequencePtr& s) { return !s->paused && !s->ended; });
    if (at == waiting_.end()) return;
    Sequence& sequence = **at;
    const bool place = static_cast<int32_t>(running_.size()) < options_.max_sequences;
    if (!place || !fits_whole(step, sequence, Paused::kKeep)) {
      // Only when it helps: what a paused sequence gives up has to be computed again.
      const std::optional<size_t> paused = youngest_paused();
      if (paused && fits_whole(step, sequence, Paused::kGive)) {
        preempt(step, *paused);
        continue;
      }
      if (anything_runs()) return;
      end(sequence, FinishReason::kKvExhausted,
          fmt::format("{} tokens need more KV pages than the engine has; load the plan with a "
                      "larger KV capacity or shorten the prompt",
                      sequence.length()),
          Code::kInvalidRequest);
      continue;
    }
    const int32_t count = prefill_count(step, sequence);
    if (count <= 0) return;
    running_.push_back(std::move(*at));
    waiting_.erase(at);
    add_part(step, *running_.back(), count);
  }
}

bool Scheduler::anything_runs() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const SequencePtr& s) { return !s->paused && !s->ended; });
}

// Prompts that fill the pool together and leave none a page: the victims give way, one at a time.
void Scheduler::resolve_deadlock(Step& step) {
  while (step.batch.sequences.empty() && anything_runs()) {
    if (running_.size() == 1) {
      end(*running_[0], FinishReason::kKvExhausted,
          fmt::format(
              "no KV page is left at token {} of the prompt; load the plan with a larger KV "
              "capacity",
              running_[0]->computed),
          Code::kInvalidRequest);
      drop_ended();
      return;
    }
    preempt(step, next_victim());
    add_prefills(step);
  }
}

void Scheduler::add_part(Step& step, Sequence& sequence, int32_t count) {
  const SeqId id = sequence.request.id;
  if (!sequence.started) {
    step.batch.opened.push_back({id, sequence.request.sampling, {}, {}});
    if (sequence.request.sampling.repeats_matter()) {
      step.batch.opened.back().prompt_ids = sequence.request.prompt_ids;
    }
    events_.push_back({id, EventKind::kStarted, -1, 0, {}, {}, {}, {}, {}});
    sequence.started = true;
  }
  step::SequenceInput part;
  part.seq = id;
  part.start = sequence.computed;
  part.count = count;
  part.purpose = sequence.request.purpose;
  part.num_logprobs = sequence.request.num_logprobs;
  const auto first = sequence.ids.begin() + sequence.computed;
  part.ids.assign(first, first + count);
  step.rows_left -= ask_for_rows(sequence, part);
  kv::Need need{id, {}};
  bool grows = false;
  for (size_t g = 0; g < step.pages_left.size(); ++g) {
    need.pages.push_back(pages_for(part.start + count, g) - pages_for(part.start, g));
    step.pages_left[g] -= need.pages.back();
    grows |= need.pages.back() > 0;
  }
  if (grows) step.batch.page_needs.push_back(std::move(need));
  if (!sequence.decodes()) step.prefill_left -= count;
  step.tokens_left -= count;
  sequence.scheduled = count;
  step.batch.sequences.push_back(std::move(part));
}

int32_t Scheduler::pages_for(int64_t tokens, size_t group) const {
  return static_cast<int32_t>(ceil_div(tokens, options_.page_tokens[group]));
}

int32_t Scheduler::prefill_count(const Step& step, const Sequence& sequence) const {
  const int32_t count = std::min(
      {sequence.remaining(), step.prefill_left, step.tokens_left, tokens_that_fit(step, sequence)});
  return sequence.limit_to_rows(count, step.rows_left);
}

int32_t Scheduler::tokens_that_fit(const Step& step, const Sequence& sequence) const {
  int64_t most = sequence.remaining();
  for (size_t g = 0; g < step.pages_left.size(); ++g) {
    const int64_t pages = pages_for(sequence.computed, g) + int64_t{step.pages_left[g]};
    most = std::min(most, pages * options_.page_tokens[g] - sequence.computed);
  }
  return static_cast<int32_t>(most);
}

bool Scheduler::fits_whole(const Step& step, const Sequence& sequence, Paused paused) const {
  for (size_t g = 0; g < step.pages_left.size(); ++g) {
    int64_t wanted = pages_for(sequence.length(), g);
    for (const SequencePtr& other : running_) {
      if (other->paused && paused == Paused::kGive) {
        wanted -= pages_for(other->computed, g);
        continue;
      }
      // What is left of its prompt, and one page to grow into.
      wanted += pages_for(other->length(), g) -
                pages_for(int64_t{other->computed} + other->scheduled, g) + 1;
    }
    if (wanted > step.pages_left[g]) return false;
  }
  return true;
}

}  // namespace kvern::sched
