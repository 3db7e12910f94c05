#pragma once

#include "kernels/kv_attention.h"

namespace kvern::kernels::cpu {

void kv_attention_plain(const KvAttentionDesc& desc, const KvAttentionArgs& args);

// Of all vector forms: no vector of 16 elements may cross a scale's border.
Verdict supports_attention_groups(const KvAttentionDesc& desc);

Verdict supports_kv_attention_bf16(const KvAttentionDesc& desc);
Verdict supports_kv_attention_avx512(const KvAttentionDesc& desc);
Verdict supports_kv_attention_avx2(const KvAttentionDesc& desc);
void kv_attention_bf16(const KvAttentionDesc& desc, const KvAttentionArgs& args);
void kv_attention_avx512(const KvAttentionDesc& desc, const KvAttentionArgs& args);
void kv_attention_avx2(const KvAttentionDesc& desc, const KvAttentionArgs& args);

}  // namespace kvern::kernels::cpu
