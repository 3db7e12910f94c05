// kv_append and qkv_rope_append. All implementations write the same bits.
#include "kernels/cpu/kv/codec.h"
#include "kernels/cpu/kv/pages.h"
#include "kernels/cpu/kv_append/turn_ways.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/rope/turn.h"
#include "kernels/kv_append.h"

namespace kvern::kernels {
namespace {

using cpu::KvRange;

// One way of turning and of encoding.
struct Plain {
  static void turn(const KvAppendDesc& d, const float* x, const float* cos, const float* sin,
                   float* y) {
    cpu::turn_plain(x, cos, sin, d.dim_k, d.rotary_dim, d.interleaved, y);
  }
  static constexpr cpu::EncodeKv kEncode = cpu::encode_kv_plain;
};

struct Avx512 {
  static void turn(const KvAppendDesc& d, const float* x, const float* cos, const float* sin,
                   float* y) {
    const auto turn = d.interleaved ? cpu::turn_pairs_avx512 : cpu::turn_halves_avx512;
    turn(x, cos, sin, d.dim_k, d.rotary_dim, y);
  }
  static constexpr cpu::EncodeKv kEncode = cpu::encode_kv_avx512;
};

struct Avx2 {
  static void turn(const KvAppendDesc& d, const float* x, const float* cos, const float* sin,
                   float* y) {
    const auto turn = d.interleaved ? cpu::turn_pairs_avx2 : cpu::turn_halves_avx2;
    turn(x, cos, sin, d.dim_k, d.rotary_dim, y);
  }
  static constexpr cpu::EncodeKv kEncode = cpu::encode_kv_avx2;
};

// Where token `t` goes.
struct Place {
  std::byte* page;
  int64_t token;  // in the page
};

template <class Way>
void append_token(const KvAppendDesc& desc, const KvAppendArgs& args, int64_t t, Place at) {
  const KvRange k_range = KvRange::k_of(desc);
  const KvRange v_range = KvRange::v_of(desc);
  const float* k = args.k + t * args.k_stride;
  const float* v = args.v + t * args.v_stride;
  const float* cos = desc.rope ? args.cos + t * (desc.rotary_dim / 2) : nullptr;
  const float* sin = desc.rope ? args.sin + t * (desc.rotary_dim / 2) : nullptr;
  alignas(64) float turned[kMaxHeadDim];
  for (int64_t h = 0; h < desc.kv_heads; ++h) {
    const float* head = k + h * desc.dim_k;
    if (desc.rope) {
      Way::turn(desc, head, cos, sin, turned);
      head = turned;
    }
    Way::kEncode(k_range, head, k_range.codes(at.page, h, at.token),
                 k_range.scales(at.page, h, at.token));
    Way::kEncode(v_range, v + h * desc.dim_v, v_range.codes(at.page, h, at.token),
                 v_range.scales(at.page, h, at.token));
  }
  if (!desc.rope) return;
  for (int64_t h = 0; h < desc.heads; ++h) {
    Way::turn(desc, args.q + t * args.q_stride + h * desc.dim_k, cos, sin,
              args.q_out + t * args.q_out_stride + h * desc.dim_k);
  }
}

// Moves the rows of q, k and v once; the pages' bytes once.
template <class Way>
void run(const KvAppendDesc& desc, const KvAppendArgs& args) {
  const StepView& step = *args.step;
  const KvPages& pages = cpu::check_step(desc, step);
  for (int32_t s = 0; s < step.num_sequences; ++s) {
    cpu::check_pages(pages, s, step.context_start[s], cpu::sequence_end(step, s));
  }
  const int64_t values = int64_t{desc.kv_heads} * (desc.dim_k + desc.dim_v) +
                         (desc.rope ? int64_t{desc.heads} * desc.dim_k : 0);
  cpu::for_rows(args.stream, step.num_tokens, values / 2, [&](int64_t begin, int64_t end) {
    int32_t s = cpu::sequence_of(step, begin);
    for (int64_t t = begin; t < end; ++t) {
      while (t >= step.token_offset[s + 1]) ++s;
      const int64_t position = step.context_start[s] + t - step.token_offset[s];
      append_token<Way>(desc, args, t,
                        {cpu::page_of(pages, s, position), position % pages.page_tokens});
    }
  });
}

Verdict supports_avx512(const KvAppendDesc&) {
  return cpu::needs_avx512();
}

Verdict supports_avx2(const KvAppendDesc&) {
  return cpu::needs_avx2();
}

constexpr Impl<KvAppendDesc, KvAppendArgs> kKvAppendCpu[] = {
    {"cpu.kv_append.avx512", "f32.unfused", supports_avx512, run<Avx512>},
    {"cpu.kv_append.avx2", "f32.unfused", supports_avx2, run<Avx2>},
    {"cpu.kv_append.plain", "f32.unfused", cpu::supports_any, run<Plain>},
};

}  // namespace

std::span<const Impl<KvAppendDesc, KvAppendArgs>> KvAppendFamily::table() {
  return kKvAppendCpu;
}

}  // namespace kvern::kernels
