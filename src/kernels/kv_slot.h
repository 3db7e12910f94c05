// Where a slot's K and V lie in a page. All numbers come from the plan's KvLayout; kernels derive
// none.
#pragma once

#include "base/fields.h"
#include "tensor/quant_format.h"

namespace kvern::kernels {

// K of (head h, token t of the page): page + k_offset + h * k_head_bytes + t * k_token_bytes; its
// scales: page + k_offset + h * k_head_bytes + k_scale_offset + t * k_scale_token_bytes. V
// likewise.
struct KvSlotDesc {
  int32_t kv_group = 0;  // index into StepView::kv
  int32_t kv_heads = 0;
  int32_t dim_k = 0;
  int32_t dim_v = 0;
  DType k_storage = DType::kBf16;
  DType v_storage = DType::kBf16;
  int32_t k_scale_group = 32;
  int32_t v_scale_group = 32;
  int64_t k_offset = 0;
  int64_t k_head_bytes = 0;
  int64_t k_token_bytes = 0;
  int64_t k_scale_offset = 0;
  int64_t k_scale_token_bytes = 0;
  int64_t v_offset = 0;
  int64_t v_head_bytes = 0;
  int64_t v_token_bytes = 0;
  int64_t v_scale_offset = 0;
  int64_t v_scale_token_bytes = 0;
  int64_t page_bytes = 0;  // every offset above lies inside
  int32_t page_tokens = 0;

  KvFormat k_format() const { return {k_storage, k_scale_group}; }
  KvFormat v_format() const { return {v_storage, v_scale_group}; }

  // Descs that hold a slot derive from this struct and append their own fields below number 100.
  static constexpr auto fields() {
    using D = KvSlotDesc;
    return std::tuple{field(100, "kv_group", &D::kv_group),
                      field(101, "kv_heads", &D::kv_heads),
                      field(102, "dim_k", &D::dim_k),
                      field(103, "dim_v", &D::dim_v),
                      field(104, "k_storage", &D::k_storage),
                      field(105, "v_storage", &D::v_storage),
                      field(106, "k_scale_group", &D::k_scale_group),
                      field(107, "v_scale_group", &D::v_scale_group),
                      field(108, "k_offset", &D::k_offset),
                      field(109, "k_head_bytes", &D::k_head_bytes),
                      field(110, "k_token_bytes", &D::k_token_bytes),
                      field(111, "k_scale_offset", &D::k_scale_offset),
                      field(112, "k_scale_token_bytes", &D::k_scale_token_bytes),
                      field(113, "v_offset", &D::v_offset),
                      field(114, "v_head_bytes", &D::v_head_bytes),
                      field(115, "v_token_bytes", &D::v_token_bytes),
                      field(116, "v_scale_offset", &D::v_scale_offset),
                      field(117, "v_scale_token_bytes", &D::v_scale_token_bytes),
                      field(118, "page_bytes", &D::page_bytes),
                      field(119, "page_tokens", &D::page_tokens)};
  }
};

// Kernels keep one head's row on the stack.
inline constexpr int32_t kMaxHeadDim = 1024;

// Throws Error(kInvalidPlan) unless every range lies inside the page and ranges hold their data.
void validate_kv_slot(const KvSlotDesc& desc);

}  // namespace kvern::kernels
