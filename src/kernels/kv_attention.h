// Attention of this step's tokens over the K and V in their sequences' pages, their own included.
//   y[t, h*dim_v:] = sum_p softmax_p(scale * q[t,h] . K[p, h / (heads / kv_heads)]) V[p, …]
// over the positions p that the mask shows to t. Softcap c > 0: score = c * tanh(score / c) first.
// ALiBi adds alibi[h] * (p - t) to a score, after the softcap. A sink joins the denominator of its
// head: exp(sinks[h]) beside the sum of exp(score).
// Every split covers positions [i * kSplitTokens, (i + 1) * kSplitTokens) and splits are combined
// in ascending order, so that a result depends neither on chunking nor on the batch.
#pragma once

#include "kernels/family.h"
#include "kernels/kv_slot.h"

namespace kvern::kernels {

inline constexpr int kSplitTokens = 128;

enum class AttentionMask : uint8_t { kCausal = 0, kWindow = 1 };

struct KvAttentionDesc : KvSlotDesc {
  int32_t heads = 0;
  float scale = 1.0f;
  AttentionMask mask = AttentionMask::kCausal;
  int32_t window = 0;  // kWindow: a token sees itself and window - 1 before it
  float softcap = 0.0f;
  bool has_sinks = false;
  bool has_alibi = false;
  static constexpr auto fields() {
    return std::tuple_cat(KvSlotDesc::fields(),
                          std::tuple{field(1, "heads", &KvAttentionDesc::heads),
                                     field(2, "scale", &KvAttentionDesc::scale),
                                     field(3, "mask", &KvAttentionDesc::mask),
                                     field(4, "window", &KvAttentionDesc::window),
                                     field(5, "softcap", &KvAttentionDesc::softcap),
                                     field(6, "has_sinks", &KvAttentionDesc::has_sinks),
                                     field(7, "has_alibi", &KvAttentionDesc::has_alibi)});
  }
};

struct KvAttentionArgs {
  const float* q;  // [tokens, heads * dim_k], rows q_stride apart
  float* y;        // [tokens, heads * dim_v], rows y_stride apart
  int64_t q_stride, y_stride;
  const StepView* step;
  device::Stream* stream;
  const float* sinks = nullptr;  // [heads]
  const float* alibi = nullptr;  // [heads]
};

// Operands: inputs q [, sinks] [, alibi]; outputs y.
struct KvAttentionFamily {
  using Desc = KvAttentionDesc;
  using Args = KvAttentionArgs;
  static constexpr const char* kName = "kv_attention";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) {
    return 1 + (desc.has_sinks ? 1 : 0) + (desc.has_alibi ? 1 : 0);
  }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
