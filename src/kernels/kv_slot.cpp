#include "kernels/kv_slot.h"

#include <fmt/format.h>

#include "kvern/error.h"

namespace kvern::kernels {
namespace {

// Half of a slot: K or V. Every number is bounded before the first product, so none overflows.
struct Range {
  const char* name;
  int32_t dim;
  KvFormat format;
  int64_t offset, head_bytes, token_bytes, scale_offset, scale_token_bytes;
};

void require(bool ok, const char* who, const char* what, int64_t got) {
  if (ok) return;
  throw Error(Code::kInvalidPlan, fmt::format("kv slot: {} {}, got {}", who, what, got));
}

void validate_range(const Range& r, const KvSlotDesc& desc) {
  const DType storage = r.format.storage;
  require(storage == DType::kF32 || storage == DType::kF16 || storage == DType::kBf16 ||
              storage == DType::kI8 || storage == DType::kF8E4M3,
          r.name, "wants f32, f16, bf16, i8 or f8e4m3 storage", static_cast<int64_t>(storage));
  require(r.dim >= 1, r.name, "wants a head dim of at least 1", r.dim);
  if (r.dim > kMaxHeadDim) {
    throw Error(Code::kInvalidPlan,
                fmt::format("kv slot: {} has heads of {} elements: at most {} are supported",
                            r.name, r.dim, kMaxHeadDim));
  }
  for (const int64_t bytes :
       {r.offset, r.head_bytes, r.token_bytes, r.scale_offset, r.scale_token_bytes}) {
    require(bytes >= 0 && bytes <= desc.page_bytes, r.name, "wants offsets inside the page", bytes);
  }
  require(r.token_bytes >= dtype_bytes(storage, r.dim), r.name, "wants room for a token's codes",
          r.token_bytes);
  int64_t used = desc.page_tokens * r.token_bytes;
  if (r.format.quantised()) {
    require(r.format.group >= 1, r.name, "wants a scale group of at least 1", r.format.group);
    require(r.scale_token_bytes >= 2 * r.format.groups(r.dim), r.name,
            "wants room for a token's scales", r.scale_token_bytes);
    require(r.scale_offset >= used, r.name, "wants scales behind the codes", r.scale_offset);
    used = r.scale_offset + desc.page_tokens * r.scale_token_bytes;
  }
  require(used <= r.head_bytes, r.name, "wants heads that hold a page of tokens", r.head_bytes);
  require(r.offset + desc.kv_heads * r.head_bytes <= desc.page_bytes, r.name,
          "wants every head inside the page", r.offset);
}

}  // namespace

void validate_kv_slot(const KvSlotDesc& desc) {
  constexpr int64_t kMaxPageBytes = int64_t{1} << 40;
  require(desc.kv_group >= 0, "group", "is not negative", desc.kv_group);
  require(desc.kv_heads >= 1 && desc.kv_heads <= 65536, "kv_heads", "lies in [1, 65536]",
          desc.kv_heads);
  require(desc.page_tokens >= 1 && desc.page_tokens <= 65536, "page_tokens", "lies in [1, 65536]",
          desc.page_tokens);
  require(desc.page_bytes >= 1 && desc.page_bytes <= kMaxPageBytes, "page_bytes",
          "lies in [1, 2^40]", desc.page_bytes);
  validate_range({"K", desc.dim_k, desc.k_format(), desc.k_offset, desc.k_head_bytes,
                  desc.k_token_bytes, desc.k_scale_offset, desc.k_scale_token_bytes},
                 desc);
  validate_range({"V", desc.dim_v, desc.v_format(), desc.v_offset, desc.v_head_bytes,
                  desc.v_token_bytes, desc.v_scale_offset, desc.v_scale_token_bytes},
                 desc);
}

}  // namespace kvern::kernels
