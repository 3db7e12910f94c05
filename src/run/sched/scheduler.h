// Decides what each step computes; executes nothing and touches no page. Needs follow from lengths
// and page lengths alone.
//
// Policies:
//   decode first      every sequence with one token left to compute goes before any prompt;
//   chunked prefill   prompts share what is left of the step, oldest first, a chunk at most;
//   admission         in order of arrival, when the whole context so far fits beside what running
//                     prompts still need and one spare page per running sequence;
//   preemption        a sequence that finds no page takes those of the youngest paused one, else of
//                     the youngest running one, which keeps its tokens, waits again in order of
//                     arrival and is computed again;
//   slow consumers    a paused sequence keeps place and pages until somebody else needs them;
//   kv_exhausted      a sequence that runs alone and finds no page fails; so does one that waits
//                     while nothing runs and cannot fit. next() never spins.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/sched/request.h"
#include "run/step/step.h"

namespace kvern::sched {

struct SchedulerOptions {
  int32_t max_tokens_per_step = 512;   // at least max_sequences, so that all can decode at once
  int32_t prefill_chunk_tokens = 512;  // prompt tokens per step, all sequences together
  int32_t max_sequences = 8;           // running at once
  int32_t max_wanted_rows = 64;        // rows of logits per step, at least max_sequences
  std::vector<int32_t> page_tokens;    // by KV group
};

struct Sequence;

struct SchedulerCounts {
  int32_t waiting = 0;
  int32_t running = 0;
  int64_t preemptions = 0;
};

class Scheduler {
 public:
  // Throws Error(kInvalidArgument) for options that contradict each other.
  explicit Scheduler(SchedulerOptions options);
  ~Scheduler();

  void submit(Request request);
  // An unknown or finished id is ignored: the cancel crossed the end on its way.
  void cancel(SeqId id);
  // As cancel, for an end that the engine found itself (a stop string).
  void finish(SeqId id, FinishReason reason, const std::string& message);
  void finish_all(FinishReason reason, const std::string& message, Code code = Code::kInternal);
  // A paused sequence is left out of batches: its consumer is slow.
  void set_paused(SeqId id, bool paused);

  // The next batch, given the pages that can be had per KV group, those of batch.released not
  // counted. Empty when nothing can run before the next submit, cancel or set_paused.
  step::StepBatch next(std::span<const int32_t> available);
  void apply(const step::StepBatch& batch, const step::StepResult& result);
  // In place of apply: the step did not happen. Its sequences fail with `message`; the pages that
  // the batch released are released again by the next one.
  void abandon(const step::StepBatch& batch, const std::string& message,
               Code code = Code::kInternal);

  // What happened since the last call, in order.
  std::vector<Event> take_events();
  // Nothing waits, runs or holds pages.
  bool idle() const;
  SchedulerCounts counts() const;

 private:
  struct Step;  // a batch in the making
  struct Release {
    SeqId seq;
    int32_t tokens = 0;  // that its pages hold
  };
  using SequencePtr = std::unique_ptr<Sequence>;

  // next(), in this order (batching.cpp)
  void flush_releases(Step& step);
  void add_decodes(Step& step);
  void add_prefills(Step& step);
  void admit(Step& step);
  void resolve_deadlock(Step& step);

  enum class Paused : uint8_t { kKeep, kGive };  // what paused sequences hold

  bool make_room(Step& step, Sequence& sequence);
  bool runs(const Sequence& sequence) const;
  bool anything_runs() const;
  std::optional<size_t> youngest_paused() const;
  size_t next_victim() const;
  void add_part(Step& step, Sequence& sequence, int32_t count);
  void preempt(Step& step, size_t index);
  int32_t pages_for(int64_t tokens, size_t group) const;
  int32_t prefill_count(const Step& step, const Sequence& sequence) const;
  int32_t tokens_that_fit(const Step& step, const Sequence& sequence) const;
  bool fits_whole(const Step& step, const Sequence& sequence, Paused paused) const;
  void note_release(Step& step, Release release);

  void apply_part(const step::SequenceInput& part, const step::SequenceResult& result);
  std::vector<TokenLogprobs> take_prompt_logprobs(Sequence& sequence,
                                                  const step::SequenceInput& part,
                                                  const step::SequenceResult& result);
  void take_sample(Sequence& sequence, int32_t token, std::vector<TokenLogprobs> logprobs);
  void end(Sequence& sequence, FinishReason reason, const std::string& message,
           Code code = Code::kInternal);
  void drop_ended();
  Sequence* find(SeqId id);

  SchedulerOptions options_;
  std::deque<SequencePtr> waiting_;
  std::vector<SequencePtr> running_;  // in order of admission
  std::vector<Release> to_release_;   // hold pages that go back with the next batch
  std::vector<SeqId> to_close_;
  std::vector<Release> last_releases_;  // of the last batch, for abandon()
  std::vector<Event> events_;
  int64_t preemptions_ = 0;
};

}  // namespace kvern::sched
