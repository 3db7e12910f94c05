// From a sequence and a position to the page that holds it. Tables, ids and lengths are untrusted:
// check_* run once per launch, outside the loops that follow them.
#pragma once

#include "base/check.h"
#include "kernels/impl.h"
#include "kernels/kv_slot.h"

namespace kvern::kernels::cpu {

// The step's pages of the slot's KV group, once the step and they fit the slot. `rows`: of the
// operands.
const KvPages& check_step(const KvSlotDesc& desc, const StepView& step);
// Every page of sequence s that holds a position of [begin, end) is in the table and the pool.
void check_pages(const KvPages& pages, int32_t sequence, int64_t begin, int64_t end);

// Position after the last that sequence s has once this step's tokens are in.
inline int64_t sequence_end(const StepView& step, int32_t s) {
  return int64_t{step.context_start[s]} + step.token_offset[s + 1] - step.token_offset[s];
}

// The sequence that owns row `token`.
int32_t sequence_of(const StepView& step, int64_t token);

inline std::byte* page_of(const KvPages& pages, int32_t sequence, int64_t position) {
  const int32_t* table = pages.page_table + pages.table_offset[sequence];
  return pages.base + table[position / pages.page_tokens] * pages.page_bytes;
}

}  // namespace kvern::kernels::cpu
