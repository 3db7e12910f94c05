#include "kernels/cpu/kv_attention/impls.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels {
namespace {

// bf16: queries rounded to bf16, QK by bf16 dot over pairs in ascending order. f32: queries as they
// are, QK by FMA. Both: p and V in f32, splits of kSplitTokens. AVX2
// has no dot product of bf16 and does all formats in f32.
constexpr Impl<KvAttentionDesc, KvAttentionArgs> kKvAttentionCpu[] = {
    {"cpu.kv_attention.avx512bf16", "bf16.k2.f32.split128", cpu::supports_kv_attention_bf16,
     cpu::kv_attention_bf16},
    {"cpu.kv_attention.avx512", "f32.k1.f32.split128", cpu::supports_kv_attention_avx512,
     cpu::kv_attention_avx512},
    {"cpu.kv_attention.avx2", "f32.k1.f32.split128", cpu::supports_kv_attention_avx2,
     cpu::kv_attention_avx2},
    {"cpu.kv_attention.plain", "f32.lanes8.libm.split128", cpu::supports_any,
     cpu::kv_attention_plain},
};

}  // namespace

std::span<const Impl<KvAttentionDesc, KvAttentionArgs>> KvAttentionFamily::table() {
  return kKvAttentionCpu;
}

}  // namespace kvern::kernels
