#pragma once

#include "kernels/kv_attention.h"

namespace kvern::kernels::cpu {

void kv_attention_plain(const KvAttentionDesc& desc, const KvAttentionArgs& args);

Verdict supports_kv_attention_bf16(const KvAttentionDesc& desc);
Verdict supports_kv_attention_f32(const KvAttentionDesc& desc);
void kv_attention_bf16(const KvAttentionDesc& desc, const KvAttentionArgs& args);
void kv_attention_f32(const KvAttentionDesc& desc, const KvAttentionArgs& args);

}  // namespace kvern::kernels::cpu
