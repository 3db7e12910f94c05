// Decides what each step computes; executes nothing and moves no page. What a step needs and leaves
// is asked of a kv::PageBudget.
//
// Policies:
//   decode first      every sequence with one token left to compute goes before any prompt;
//   chunked prefill   prompts share what is left of the step, oldest first, a chunk at most;
//   admission         in order of arrival, when the whole context so far fits beside what running
//                     prompts still need and one spare page per running sequence; a prompt whose
//                     beginning another one is computing waits for that and takes its pages;
//   kept contexts     hold their pages until anybody needs them: the one unused for longest gives
//                     first, before any sequence is preempted;
//   preemption        a sequence that finds no page takes those of the youngest paused one, else of
//                     the one that has to compute least again (tokens in pages that nobody else
//                     holds; the youngest of equals), never of the oldest, which so always goes on.
//                     Who gave keeps its tokens, waits again in order of arrival and is computed
//                     again, but for what the prefix cache still has;
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

#include "run/kv/page_budget.h"
#include "run/sched/request.h"
#include "run/step/step.h"

namespace kvern::sched {

struct SchedulerOptions {
  int32_t max_tokens_per_step = 512;   // at least max_sequences, so that all can decode at once
  int32_t prefill_chunk_tokens = 512;  // prompt tokens per step, all sequences together
  int32_t max_sequences = 8;           // running at once
  int32_t max_wanted_rows = 64;        // rows of logits per step, at least max_sequences
};

struct Sequence;

// A context whose answer has ended and whose pages are still there.
struct KeptContext {
  SeqId id;
  std::vector<int32_t> ids;
  int32_t computed = 0;  // of ids: in pages
};

struct SchedulerCounts {
  int32_t waiting = 0;
  int32_t running = 0;
  int64_t preemptions = 0;
  int32_t kept = 0;               // contexts that hold pages
  int64_t prefix_hit_tokens = 0;  // of prompts, taken from the prefix cache
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

  // The context's pages go back; one that still runs is not kept. An unknown id is ignored.
  void drop_context(SeqId id);
  void drop_all_contexts();
  // Null when it gave its pages up, or still runs. Valid until the next call that is not const.
  const KeptContext* kept(SeqId id) const;
  // Its pages are the pool's already.
  void keep(KeptContext context);

  // The next batch, given the committed state of the pages. Empty when nothing can run before the
  // next submit, cancel or set_paused.
  step::StepBatch next(const kv::PagePool& pages);
  void apply(const step::StepBatch& batch, const step::StepResult& result);
  // In place of apply: the step did not happen. Its sequences fail with `message`; the pages that
  // the batch released are released again by the next one.
  void abandon(const step::StepBatch& batch, const std::string& message,
               Code code = Code::kInternal);

  // What happened since the last call, in order.
  std::vector<Event> take_events();
  // Nothing waits or runs; no pages are held but those of kept contexts.
  bool idle() const;
  SchedulerCounts counts() const;

 private:
  struct Step;  // a batch in the making
  using SequencePtr = std::unique_ptr<Sequence>;

  // next(), in this order (batching.cpp, admission.cpp, victims.cpp)
  void flush_releases(Step& step);
  void add_decodes(Step& step);
  void add_prefills(Step& step);
  void admit(Step& step);
  void resolve_deadlock(Step& step);

  void add_part(Step& step, Sequence& sequence, const kv::PageTable& table, int32_t count);
  int32_t prefill_count(const Step& step, const Sequence& sequence, const kv::PageTable& table,
                        const kv::PageBudget& budget) const;
  void release(Step& step, SeqId id);

  // What a sequence would begin with, were it admitted.
  struct Start {
    std::optional<kv::Prefix> prefix;
    bool from_base = false;
    bool ends_base = false;  // nobody else uses the base
  };
  enum class Paused : uint8_t { kKeep, kGive };  // what paused sequences hold

  std::deque<SequencePtr>::iterator next_admissible(const Step& step);
  Start find_start(const Step& step, const Sequence& sequence) const;
  bool awaits_prefix(const Step& step, const Sequence& sequence) const;
  bool has_place() const { return static_cast<int32_t>(running_.size()) < options_.max_sequences; }
  bool fits(const Step& step, const Sequence& sequence, const Start& start) const;
  kv::PageBudget with_start(const Step& step, const Sequence& sequence, const Start& start) const;
  bool fits_whole(const kv::PageBudget& budget, const Sequence& sequence, const Start& start,
                  Paused paused) const;
  bool make_way(Step& step, const Sequence& sequence, const Start& start);
  bool start(Step& step, std::deque<SequencePtr>::iterator at, const Start& start);

  bool make_room(Step& step, Sequence& sequence);
  bool reclaim_kept(Step& step, SeqId except = {});
  bool runs(const Sequence& sequence) const;
  bool anything_runs() const;
  std::optional<size_t> youngest_paused() const;
  std::optional<size_t> next_victim(const Step& step) const;
  void preempt(Step& step, size_t index);

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
  std::vector<SequencePtr> running_;  // in order of arrival
  std::deque<KeptContext> kept_;      // the one unused for longest first
  std::vector<SeqId> to_release_;     // hold pages that go back with the next batch
  std::vector<SeqId> to_close_;
  std::vector<SeqId> last_releases_;  // of the last batch, for abandon()
  std::vector<Event> events_;
  int64_t preemptions_ = 0;
  int64_t prefix_hit_tokens_ = 0;
};

}  // namespace kvern::sched
