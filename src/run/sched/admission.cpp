// Who joins those that run, and with which pages.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "run/sched/sequence.h"
#include "run/sched/step_in_making.h"

namespace kvern::sched {
namespace {

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

int32_t valid_pages(const kv::Prefix& prefix, size_t group) {
  const auto& pages = prefix.pages[group];
  return static_cast<int32_t>(
      std::count_if(pages.begin(), pages.end(), [](kv::PageId page) { return page.valid(); }));
}

}  // namespace

void Scheduler::admit(Step& step) {
  while (step.tokens_left > 0 && step.prefill_left > 0) {
    if (!has_place() && !youngest_paused()) return;  // nobody looks for prefixes in vain
    const auto at = next_admissible(step);
    if (at == waiting_.end()) return;
    Sequence& sequence = **at;
    const Start begin = find_start(step, sequence);
    if (has_place() && fits(step, sequence, begin)) {
      if (!start(step, at, begin)) return;
      continue;
    }
    if (make_way(step, sequence, begin)) continue;
    if (anything_runs()) return;
    end(sequence, FinishReason::kKvExhausted,
        fmt::format("{} tokens need more KV pages than the engine has; load the plan with a "
                    "larger KV capacity or shorten the prompt",
                    sequence.length()),
        Code::kInvalidRequest);
  }
}

std::deque<Scheduler::SequencePtr>::iterator Scheduler::next_admissible(const Step& step) {
  return std::find_if(waiting_.begin(), waiting_.end(), [&](const SequencePtr& s) {
    return !s->paused && !s->ended && !awaits_prefix(step, *s);
  });
}

// A running sequence is about to compute whole blocks that this one begins with too.
bool Scheduler::awaits_prefix(const Step& step, const Sequence& sequence) const {
  const int32_t block = step.budget.pool().block_tokens();
  if (block == 0 || !sequence.caches()) return false;
  for (const SequencePtr& other : running_) {
    if (other->paused || other->ended || !other->caches()) continue;
    int64_t common = common_length(other->ids, sequence.ids);
    common = std::min<int64_t>(common, sequence.reusable_tokens()) / block * block;
    if (other->computed < common) return true;
  }
  return false;
}

Scheduler::Start Scheduler::find_start(const Step& step, const Sequence& sequence) const {
  Start out;
  const kv::PagePool& pages = step.budget.pool();
  const int32_t most = sequence.reusable_tokens();
  const Request& request = sequence.request;
  out.ends_base = request.base_use != nullptr && request.base_use.use_count() == 1 &&
                  kept(request.base) != nullptr;
  if (const KeptContext* base = kept(request.base); base != nullptr) {
    const auto held = std::span(base->ids).first(static_cast<size_t>(base->computed));
    const int64_t tokens = std::min<int64_t>(common_length(held, sequence.ids), most);
    out.prefix = pages.prefix_of(request.base, tokens);
    out.from_base = out.prefix.has_value();
  }
  if (!sequence.caches()) return out;
  kv::Prefix cached = pages.find_prefix(sequence.ids, most);
  if (cached.tokens > (out.prefix ? out.prefix->tokens : 0)) {
    out.prefix = std::move(cached);
    out.from_base = false;
  }
  return out;
}

// A start that takes nobody's pages, the usual one, needs no budget of its own.
bool Scheduler::fits(const Step& step, const Sequence& sequence, const Start& start) const {
  if (!start.prefix && !start.ends_base) {
    return fits_whole(step.budget, sequence, start, Paused::kKeep);
  }
  return fits_whole(with_start(step, sequence, start), sequence, start, Paused::kKeep);
}

kv::PageBudget Scheduler::with_start(const Step& step, const Sequence& sequence,
                                     const Start& start) const {
  kv::PageBudget budget = step.budget;
  if (start.prefix) budget.begin(*start.prefix);
  if (start.ends_base) budget.release(sequence.request.base);
  return budget;
}

// `budget` has given the sequence its start.
bool Scheduler::fits_whole(const kv::PageBudget& budget, const Sequence& sequence,
                           const Start& start, Paused paused) const {
  // Alone, a sequence takes the chunks that fit.
  const int64_t chunk = anything_runs() ? options_.prefill_chunk_tokens : 1;
  for (size_t g = 0; g < budget.num_groups(); ++g) {
    int64_t wanted = budget.most_pages(sequence.length(), chunk, g);
    if (start.prefix) {
      const kv::PageTable table{start.prefix->pages};
      wanted += budget.tail_cost(table, start.prefix->tokens, g) - valid_pages(*start.prefix, g);
    }
    for (const SequencePtr& other : running_) {
      if (other->paused && paused == Paused::kGive) continue;
      // What is left of its prompt, and one page to grow into.
      const int64_t left = int64_t{budget.most_pages(other->length(), chunk, g)} -
                           budget.pages_held(int64_t{other->computed} + other->scheduled, g);
      wanted += std::max<int64_t>(0, left) + 1;
    }
    if (wanted > budget.available(g)) return false;
  }
  return true;
}

// Lets as many kept contexts as it takes, or one paused sequence, give way, where that helps in the
// end: what they give up may have to be computed again.
bool Scheduler::make_way(Step& step, const Sequence& sequence, const Start& start) {
  const std::optional<size_t> paused = youngest_paused();
  if (!paused && (!has_place() || kept_.empty())) return false;
  kv::PageBudget budget = with_start(step, sequence, start);
  std::vector<SeqId> oldest_first;
  for (const KeptContext& context : kept_) oldest_first.push_back(context.id);
  // Its own base last: that saves computing.
  std::stable_partition(oldest_first.begin(), oldest_first.end(),
                        [&](SeqId id) { return id != sequence.request.base; });
  for (size_t n = 0; n < oldest_first.size(); ++n) {
    budget.release(oldest_first[n]);
    if (!has_place() || !fits_whole(budget, sequence, start, Paused::kKeep)) continue;
    for (size_t i = 0; i <= n; ++i) reclaim_kept(step, sequence.request.base);
    if (oldest_first[n] == sequence.request.base) reclaim_kept(step);
    return true;
  }
  if (!paused) return false;
  for (const SequencePtr& other : running_) {
    if (other->paused) budget.release(other->request.id);
  }
  if (!fits_whole(budget, sequence, start, Paused::kGive)) return false;
  preempt(step, *paused);
  return true;
}

bool Scheduler::start(Step& step, std::deque<SequencePtr>::iterator at, const Start& begin) {
  Sequence& sequence = **at;
  kv::PageBudget budget = step.budget;
  kv::PageTable table = step.table(sequence);
  if (begin.prefix) {
    budget.begin(*begin.prefix);
    table.groups = begin.prefix->pages;
    sequence.computed = static_cast<int32_t>(begin.prefix->tokens);
  }
  if (begin.ends_base) budget.release(sequence.request.base);
  const int32_t count = prefill_count(step, sequence, table, budget);
  if (count <= 0) {
    sequence.computed = 0;
    return false;
  }
  if (begin.prefix && !begin.from_base && !sequence.started) {
    prefix_hit_tokens_ += sequence.computed;
  }
  step.budget = std::move(budget);
  if (begin.ends_base) {
    const SeqId base = sequence.request.base;
    step.batch.released.push_back(base);
    last_releases_.push_back(base);
    std::erase_if(kept_, [base](const KeptContext& context) { return context.id == base; });
  } else if (begin.from_base) {
    // Used again: the last of all to give its pages up.
    const auto base = std::find_if(kept_.begin(), kept_.end(), [&](const KeptContext& context) {
      return context.id == sequence.request.base;
    });
    std::rotate(base, base + 1, kept_.end());
  }
  sequence.request.base_use.reset();
  // In order of arrival: one that gave way earlier goes before those that came later.
  const auto later = std::find_if(running_.begin(), running_.end(), [&](const SequencePtr& other) {
    return other->request.id > sequence.request.id;
  });
  running_.insert(later, std::move(*at));
  waiting_.erase(at);
  const size_t needs = step.batch.page_needs.size();
  add_part(step, sequence, table, count);
  if (!begin.prefix) return true;
  if (step.batch.page_needs.size() == needs) {
    step.batch.page_needs.push_back(
        {sequence.request.id, std::vector<int32_t>(step.budget.num_groups(), 0)});
  }
  step.batch.page_needs.back().begins = begin.prefix;
  return true;
}

}  // namespace kvern::sched
