// The KV cache as the plan describes it: slots, KV groups, and the exact bytes of a page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "tensor/quant_format.h"

namespace kvern {
class WireReader;
class WireWriter;
}  // namespace kvern

namespace kvern::plan {

enum class Retention : uint8_t { kAll = 0, kWindow = 1 };

struct KvSlot {
  std::vector<int64_t> layers;  // layers served; the first one writes
  int32_t kv_heads = 0;
  int32_t dim_k = 0;
  int32_t dim_v = 0;
  KvFormat k_format;
  KvFormat v_format;
  Retention retention = Retention::kAll;
  int32_t window_tokens = 0;    // kWindow only
  std::string position_scheme;  // "rope", "none", …: part of what makes saved contexts compatible
};

// Where a slot lies in a page of its group. Ranges start 128-byte aligned.
struct KvPlacement {
  int32_t kv_group = 0;
  int64_t k_offset = 0, k_head_bytes = 0, k_token_bytes = 0, k_scale_offset = 0,
          k_scale_token_bytes = 0;
  int64_t v_offset = 0, v_head_bytes = 0, v_token_bytes = 0, v_scale_offset = 0,
          v_scale_token_bytes = 0;
};

// Slots of equal retention: one pool, one page length, one page table per sequence.
struct KvGroup {
  Retention retention = Retention::kAll;
  int32_t window_tokens = 0;
  int32_t page_tokens = 0;
  int64_t page_bytes = 0;  // a multiple of 128
  std::vector<int32_t> slots;
};

class KvLayout {
 public:
  // Groups the slots and places them. Throws Error(kInvalidPlan) for sizes that overflow or are 0.
  static KvLayout make(std::vector<KvSlot> slots, int32_t page_tokens);

  const std::vector<KvSlot>& slots() const { return slots_; }
  const std::vector<KvGroup>& groups() const { return groups_; }
  const KvPlacement& placement(int slot) const { return placements_[static_cast<size_t>(slot)]; }
  // Bytes that one token takes over all groups and slots.
  int64_t bytes_per_token() const;
  int32_t page_tokens() const;
  // Of slots, formats and page lengths; part of every saved context.
  uint64_t hash() const;

 private:
  std::vector<KvSlot> slots_;
  std::vector<KvGroup> groups_;
  std::vector<KvPlacement> placements_;
};

void write_kv_layout(WireWriter& out, const KvLayout& layout);
KvLayout read_kv_layout(WireReader& in);

}  // namespace kvern::plan
