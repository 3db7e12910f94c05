// Schemas: the ops that write and read the KV cache.
#include "compile/ir/ops.h"
#include "compile/ir/type_rules.h"

namespace kvern::ir {
namespace {

void want_slot(int64_t slot) {
  want(slot >= 0 && slot < (1 << 20), "slot must be 0 or more, got {}", slot);
}

void want_grouped(int64_t heads, int64_t kv_heads) {
  want(kv_heads > 0 && heads % kv_heads == 0, "{} heads cannot share {} KV heads evenly", heads,
       kv_heads);
}

std::vector<Type> infer_kv_append(Types in, const Attrs& attrs) {
  const auto& a = attrs.as<KvAppendAttrs>();
  want_slot(a.slot);
  want_rows(in[0], "k", heads_width(a.kv_heads, a.dim_k, "k"));
  want_rows(in[1], "v", heads_width(a.kv_heads, a.dim_v, "v"));
  want_same_rows(in[0], "k", in[1], "v");
  return {Type::kv()};
}

void want_mask(const KvAttentionAttrs& a) {
  want(a.mask <= MaskKind::kExplicit, "mask kind {} does not exist", static_cast<int>(a.mask));
  if (a.mask == MaskKind::kExplicit) {
    throw Error(Code::kUnsupported, "an explicit mask has no input yet; use causal, window, chunk");
  }
  if (a.mask != MaskKind::kCausal) want_positive(a.window, "window");
  want(a.softcap >= 0, "softcap must be 0 (none) or positive, got {}", a.softcap);
}

std::vector<Type> infer_kv_attention(Types in, const Attrs& attrs) {
  const auto& a = attrs.as<KvAttentionAttrs>();
  want_slot(a.slot);
  want_rows(in[0], "q", heads_width(a.heads, a.dim_k, "q"));
  want_grouped(a.heads, a.kv_heads);
  want(in[1].is_kv(), "kv must be !kv, got {}", to_string(in[1]));
  want_mask(a);
  const size_t inputs = 2 + (a.has_sinks ? 1 : 0) + (a.has_alibi ? 1 : 0);
  want(in.size() == inputs, "has_sinks and has_alibi ask for {} inputs, got {}", inputs, in.size());
  for (size_t i = 2; i < in.size(); ++i) {
    want_constant(in[i], "sinks and alibi", 1);
    want(in[i].dims[0] == Dim(a.heads), "sinks and alibi must hold one value per head, got {}",
         to_string(in[i]));
  }
  return {
      Type::tensor(DType::kF32, {in[0].dims[0], heads_width(a.heads, a.dim_v, "kv_attention")})};
}

std::vector<Type> infer_qkv_rope_append(Types in, const Attrs& attrs) {
  const auto& a = attrs.as<QkvRopeAppendAttrs>();
  want_slot(a.slot);
  want_rows(in[0], "q", heads_width(a.heads, a.head_dim, "q"));
  want_rows(in[1], "k", heads_width(a.kv_heads, a.head_dim, "k"));
  want_rows(in[2], "v", heads_width(a.kv_heads, a.head_dim, "v"));
  want_grouped(a.heads, a.kv_heads);
  want_tensor(in[3], "cos", DType::kF32, 2);
  want_same(in[3], "cos", in[4], "sin");
  for (const size_t i : {1, 2, 3}) want_same_rows(in[0], "q", in[i], "k, v and cos");
  want(2 * last_dim(in[3], "cos") <= a.head_dim,
       "cos of {} turns more than the {} elements of a head", to_string(in[3]), a.head_dim);
  return {in[0], Type::kv()};
}

}  // namespace

namespace ops {

const OpSchema kKvAppend{"kv_append", 2, 2, infer_kv_append, defaults<KvAppendAttrs>, true};
const OpSchema kKvAttention{
    "kv_attention", 2, 4, infer_kv_attention, defaults<KvAttentionAttrs>, true};
const OpSchema kQkvRopeAppend{
    "qkv_rope_append", 5, 5, infer_qkv_rope_append, defaults<QkvRopeAppendAttrs>, true};

}  // namespace ops
}  // namespace kvern::ir
