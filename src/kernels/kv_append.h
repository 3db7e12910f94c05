// Writes this step's K and V into the pages of their sequences, quantised to the slot's formats.
// With rope, q and k turn first: q into its own output, k on its way into the page.
#pragma once

#include "kernels/family.h"
#include "kernels/kv_slot.h"

namespace kvern::kernels {

struct KvAppendDesc : KvSlotDesc {
  bool rope = false;       // kv_append: false; qkv_rope_append: true
  int32_t heads = 0;       // query heads; with rope only
  int32_t rotary_dim = 0;  // the first elements of each head, <= dim_k
  bool interleaved = false;
  static constexpr auto fields() {
    return std::tuple_cat(
        KvSlotDesc::fields(),
        std::tuple{field(1, "rope", &KvAppendDesc::rope), field(2, "heads", &KvAppendDesc::heads),
                   field(3, "rotary_dim", &KvAppendDesc::rotary_dim),
                   field(4, "interleaved", &KvAppendDesc::interleaved)});
  }
};

struct KvAppendArgs {
  const float* q;    // [tokens, heads * dim_k]; with rope only
  const float* k;    // [tokens, kv_heads * dim_k]
  const float* v;    // [tokens, kv_heads * dim_v]
  const float* cos;  // [tokens, rotary_dim / 2]; with rope only
  const float* sin;
  float* q_out;  // [tokens, heads * dim_k]
  int64_t q_stride, k_stride, v_stride, q_out_stride;
  const StepView* step;
  device::Stream* stream;
};

// Operands: inputs k, v; no output. With rope: inputs q, k, v, cos, sin; outputs q_out.
struct KvAppendFamily {
  using Desc = KvAppendDesc;
  using Args = KvAppendArgs;
  static constexpr const char* kName = "kv_append";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) { return desc.rope ? 5 : 2; }
  static int64_t num_outputs(const Desc& desc) { return desc.rope ? 1 : 0; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
