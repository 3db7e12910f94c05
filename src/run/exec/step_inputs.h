// A StepBatch as the arrays that kernels read: ids, positions, wanted rows, offsets, page tables.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernels/impl.h"
#include "run/kv/page_pool.h"
#include "run/step/step.h"

namespace kvern::exec {

// The pool of one KV group in device memory.
struct KvPoolView {
  std::byte* base = nullptr;
  int64_t page_bytes = 0;
  int32_t page_tokens = 0;
  int32_t num_pages = 0;
  int32_t window_tokens = 0;  // 0: a token sees all before it
};

// The last sampled id of each sequence, for InputKind::kPreviousSample.
using LastSamples = std::unordered_map<kv::SeqId, int32_t>;

class StepInputs {
 public:
  // Keeps its arrays between steps. KVERN_CHECKs everything: counts, ids against the vocabulary,
  // wanted rows, and that each sequence's pages exist and hold what its tokens see. Pages that slid
  // out of the window are -1 in the table.
  void fill(const step::StepBatch& batch, const kv::Lease& lease, const LastSamples& last_samples,
            const std::vector<KvPoolView>& pools, int64_t vocabulary);

  const std::vector<int32_t>& ids() const { return ids_; }
  const std::vector<int32_t>& positions() const { return positions_; }
  const std::vector<int32_t>& wanted() const { return wanted_; }  // rows among the step's tokens
  const kernels::StepView& view() const { return view_; }

 private:
  void add_tokens(const step::SequenceInput& part, const LastSamples& last_samples,
                  int64_t vocabulary);
  void add_wanted(const step::SequenceInput& part, int32_t first_token);
  void add_pages(const step::SequenceInput& part, const kv::PageTable& table, size_t group,
                 const KvPoolView& pool);

  std::vector<int32_t> ids_, positions_, wanted_, token_offset_, context_start_;
  std::vector<std::vector<int32_t>> page_table_, table_offset_;  // by KV group
  std::vector<kernels::KvPages> kv_;
  kernels::StepView view_;
};

}  // namespace kvern::exec
