// Cuts a launch into tasks and runs them with one instruction set.
#pragma once

#include "kernels/cpu/kv_attention/isa.h"

namespace kvern::kernels::cpu {

void launch_attention(const KvAttentionDesc& desc, const KvAttentionArgs& args, const Isa& isa,
                      QkInput input);

}  // namespace kvern::kernels::cpu
