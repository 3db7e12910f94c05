// One head's K or V of one token, to and from the bytes of a page.
//
// i8 and f8e4m3 store code = round(x / scale) with scale = max|x| / 127 (448) of the group, rounded
// to f16 first. A group with a value that is not finite gets a NaN scale: it shows, it is not lost.
#pragma once

#include "kernels/kv_slot.h"

namespace kvern::kernels::cpu {

// Where K or V of a head lies: token t of the page has its codes at head + t * token_bytes and its
// scales at head + scale_offset + t * scale_token_bytes.
struct KvRange {
  DType storage;
  int32_t group;
  int32_t dim;
  int64_t offset, head_bytes, token_bytes, scale_offset, scale_token_bytes;

  static KvRange k_of(const KvSlotDesc& d) {
    return {d.k_storage,    d.k_scale_group, d.dim_k,          d.k_offset,
            d.k_head_bytes, d.k_token_bytes, d.k_scale_offset, d.k_scale_token_bytes};
  }
  static KvRange v_of(const KvSlotDesc& d) {
    return {d.v_storage,    d.v_scale_group, d.dim_v,          d.v_offset,
            d.v_head_bytes, d.v_token_bytes, d.v_scale_offset, d.v_scale_token_bytes};
  }
  template <class Byte>
  Byte* codes(Byte* page, int64_t head, int64_t token) const {
    return page + offset + head * head_bytes + token * token_bytes;
  }
  template <class Byte>
  Byte* scales(Byte* page, int64_t head, int64_t token) const {
    return page + offset + head * head_bytes + scale_offset + token * scale_token_bytes;
  }
};

using EncodeKv = void (*)(const KvRange& range, const float* x, std::byte* codes,
                          std::byte* scales);

void encode_kv_plain(const KvRange& range, const float* x, std::byte* codes, std::byte* scales);
void decode_kv_plain(const KvRange& range, const std::byte* codes, const std::byte* scales,
                     float* y);

// The same bits by AVX-512; by AVX2 and F16C.
void encode_kv_avx512(const KvRange& range, const float* x, std::byte* codes, std::byte* scales);
void encode_kv_avx2(const KvRange& range, const float* x, std::byte* codes, std::byte* scales);

// Writes the f16 scale of a group of i8 or f8e4m3 whose largest magnitude is `largest` (NaN or
// infinity: a value is not finite). Gives what its values are multiplied with, 0: all codes are 0.
float write_scale(DType storage, float largest, std::byte* scale);

}  // namespace kvern::kernels::cpu
