// Rotation of heads by position, shared by rope and its fusion with the KV append.
#pragma once

#include "compile/eval/eval.h"
#include "compile/ir/ops.h"

namespace kvern::eval {

// x: [tokens, heads * head_dim]; cos, sin: [tokens, pairs].
HostTensor rotate(const HostTensor& x, const HostTensor& cos, const HostTensor& sin,
                  const ir::RopeAttrs& attrs);

}  // namespace kvern::eval
