#include "kernels/cpu/kv/pages.h"

#include <algorithm>

namespace kvern::kernels::cpu {

const KvPages& check_step(const KvSlotDesc& desc, const StepView& step) {
  KVERN_CHECK(desc.kv_group >= 0 && static_cast<size_t>(desc.kv_group) < step.kv.size(),
              "kv: slot in KV group {}, step has {}", desc.kv_group, step.kv.size());
  const KvPages& pages = step.kv[static_cast<size_t>(desc.kv_group)];
  KVERN_CHECK(pages.page_bytes == desc.page_bytes && pages.page_tokens == desc.page_tokens,
              "kv: pages of {} bytes and {} tokens, slot wants {} and {}", pages.page_bytes,
              pages.page_tokens, desc.page_bytes, desc.page_tokens);
  int32_t rows = 0;
  for (int32_t s = 0; s < step.num_sequences; ++s) {
    KVERN_CHECK(step.token_offset[s] == rows && step.token_offset[s + 1] >= rows &&
                    step.context_start[s] >= 0 && pages.table_offset[s] >= 0 &&
                    pages.table_offset[s] <= pages.table_offset[s + 1],
                "kv: step is broken at sequence {}", s);
    rows = step.token_offset[s + 1];
  }
  KVERN_CHECK(rows == step.num_tokens, "kv: sequences own {} rows, step has {}", rows,
              step.num_tokens);
  return pages;
}

void check_pages(const KvPages& pages, int32_t sequence, int64_t begin, int64_t end) {
  if (begin >= end) return;
  const int64_t last = (end - 1) / pages.page_tokens;
  const int64_t length = pages.table_offset[sequence + 1] - pages.table_offset[sequence];
  KVERN_CHECK(last < length, "kv: sequence {} of this step has {} pages, position {} needs {}",
              sequence, length, end - 1, last + 1);
  const int32_t* table = pages.page_table + pages.table_offset[sequence];
  for (int64_t i = begin / pages.page_tokens; i <= last; ++i) {
    KVERN_CHECK(table[i] >= 0 && table[i] < pages.num_pages,
                "kv: page {} of sequence {} has id {}, the pool has {}", i, sequence, table[i],
                pages.num_pages);
  }
}

int32_t sequence_of(const StepView& step, int64_t token) {
  const int32_t* end = step.token_offset + step.num_sequences + 1;
  const int32_t* next = std::upper_bound(step.token_offset, end, static_cast<int32_t>(token));
  return static_cast<int32_t>(next - step.token_offset) - 1;
}

}  // namespace kvern::kernels::cpu
