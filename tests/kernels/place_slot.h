#pragma once

#include "kernels/kv_slot.h"

namespace kvern::testing {

// A slot placed as KvLayout does it: head ranges 128-byte aligned, codes, then scales. `lead`:
// bytes of other slots before it.
inline kernels::KvSlotDesc place_slot(int32_t kv_heads, int32_t dim_k, int32_t dim_v, KvFormat k,
                                      KvFormat v, int32_t page_tokens, int64_t lead = 256) {
  kernels::KvSlotDesc d;
  d.kv_heads = kv_heads;
  d.dim_k = dim_k;
  d.dim_v = dim_v;
  d.k_storage = k.storage;
  d.v_storage = v.storage;
  d.k_scale_group = k.group;
  d.v_scale_group = v.group;
  d.page_tokens = page_tokens;
  const auto align = [](int64_t bytes) { return (bytes + 127) / 128 * 128; };
  d.k_offset = lead;
  d.k_token_bytes = dtype_bytes(k.storage, dim_k);
  d.k_scale_offset = page_tokens * d.k_token_bytes;
  d.k_scale_token_bytes = 2 * k.groups(dim_k);
  d.k_head_bytes = align(d.k_scale_offset + page_tokens * d.k_scale_token_bytes);
  d.v_offset = d.k_offset + kv_heads * d.k_head_bytes;
  d.v_token_bytes = dtype_bytes(v.storage, dim_v);
  d.v_scale_offset = page_tokens * d.v_token_bytes;
  d.v_scale_token_bytes = 2 * v.groups(dim_v);
  d.v_head_bytes = align(d.v_scale_offset + page_tokens * d.v_scale_token_bytes);
  d.page_bytes = d.v_offset + kv_heads * d.v_head_bytes;
  return d;
}

}  // namespace kvern::testing
