// The functions behind op_table.cpp of attention, norms, quantised ops and control flow.
#pragma once

#include "compile/eval/tensor/eval_ops.h"

namespace kvern::eval {

// attention.cpp
Arrays eval_attention(const OpCall& call);  // the standard's, 23 and newer
// attention_linear.cpp
Arrays eval_linear_attention(const OpCall& call);
Arrays eval_causal_conv(const OpCall& call);
// contrib_gqa.cpp, contrib_attention.cpp: com.microsoft
Arrays eval_group_query_attention(const OpCall& call);
Arrays eval_multi_head_attention(const OpCall& call);
Arrays eval_ms_attention(const OpCall& call);

// rotary.cpp
Arrays eval_rotary(const OpCall& call);
Arrays eval_ms_rotary(const OpCall& call);

// norm.cpp
Arrays eval_layer_norm(const OpCall& call);
Arrays eval_rms_norm(const OpCall& call);  // RMSNormalization, SimplifiedLayerNormalization
Arrays eval_group_norm(const OpCall& call);
Arrays eval_instance_norm(const OpCall& call);
Arrays eval_skip_norm(const OpCall& call);  // com.microsoft.Skip…LayerNormalization

// contrib_gelu.cpp
Arrays eval_ms_gelu(const OpCall& call);  // BiasGelu, FastGelu, Gelu, QuickGelu

// quant_linear.cpp
Arrays eval_quantize(const OpCall& call);
Arrays eval_dequantize(const OpCall& call);
Arrays eval_dynamic_quantize(const OpCall& call);
// quant_matmul.cpp
Arrays eval_matmul_integer(const OpCall& call);
Arrays eval_qlinear_matmul(const OpCall& call);
Arrays eval_matmul_integer_to_float(const OpCall& call);
Arrays eval_dynamic_quantize_matmul(const OpCall& call);
Arrays eval_fused_matmul(const OpCall& call);
// quant_blocks.cpp
Arrays eval_matmul_n_bits(const OpCall& call);
Arrays eval_gather_block_quantized(const OpCall& call);

// control.cpp
Arrays eval_if(const OpCall& call);
Arrays eval_loop(const OpCall& call);
Arrays eval_scan(const OpCall& call);

}  // namespace kvern::eval
