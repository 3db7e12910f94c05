#include "compile/quantize/blocks.h"

#include <cstring>

#include "base/check.h"
#include "tensor/float_bits.h"

namespace kvern::quantize {
namespace {

using ir::SourceType;

uint8_t byte_at(const std::byte* at, int64_t i) {
  return static_cast<uint8_t>(at[i]);
}

uint16_t u16_at(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, 2);
  return bits;
}

float f16_at(const std::byte* at) {
  return f16_to_f32(u16_at(at));
}

uint32_t u32_at(const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, 4);
  return bits;
}

// 16 bytes hold 32 codes: low nibbles are elements 0-15, high nibbles 16-31.
void nibbles(const std::byte* at, int offset, int8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    const int both = byte_at(at, i);
    codes[i] = static_cast<int8_t>((both & 15) - offset);
    codes[i + 16] = static_cast<int8_t>((both >> 4) - offset);
  }
}

// The same with a fifth bit each from `high`, bit i for element i.
void nibbles_and_bits(const std::byte* at, uint32_t high, int offset, int8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    const int both = byte_at(at, i);
    const int low_bit = static_cast<int>(high >> i & 1u) << 4;
    const int high_bit = static_cast<int>(high >> (i + 16) & 1u) << 4;
    codes[i] = static_cast<int8_t>(((both & 15) | low_bit) - offset);
    codes[i + 16] = static_cast<int8_t>(((both >> 4) | high_bit) - offset);
  }
}

// {f16 scale, 32 x i8}
void q8_0(const std::byte* block, const RowCodes& to) {
  to.scales[0] = f16_at(block);
  std::memcpy(to.codes, block + 2, 32);
}

// {f16 scale, 16 bytes of nibbles}; codes are stored + 8
void q4_0(const std::byte* block, const RowCodes& to) {
  to.scales[0] = f16_at(block);
  nibbles(block + 2, 8, to.codes);
}

// {f16 scale, f16 minimum, 16 bytes of nibbles}
void q4_1(const std::byte* block, const RowCodes& to) {
  to.scales[0] = f16_at(block);
  to.minima[0] = f16_at(block + 2);
  nibbles(block + 4, 0, to.codes);
}

// {f16 scale, 32 fifth bits, 16 bytes of nibbles}; codes are stored + 16
void q5_0(const std::byte* block, const RowCodes& to) {
  to.scales[0] = f16_at(block);
  nibbles_and_bits(block + 6, u32_at(block + 2), 16, to.codes);
}

// {f16 scale, f16 minimum, 32 fifth bits, 16 bytes of nibbles}
void q5_1(const std::byte* block, const RowCodes& to) {
  to.scales[0] = f16_at(block);
  to.minima[0] = f16_at(block + 2);
  nibbles_and_bits(block + 8, u32_at(block + 4), 0, to.codes);
}

// Q4_K and Q5_K begin with {f16 d, f16 dmin, 12 bytes: 6-bit scale and minimum of 8 groups of 32}.
// Groups 0-3 have theirs in the low six bits of bytes 0-3 and 4-7; groups 4-7 take four bits from
// bytes 8-11 and the upper two from the top of bytes 0-3 and 4-7.
void k_scales(const std::byte* block, const RowCodes& to) {
  const float d = f16_at(block);
  const float d_min = f16_at(block + 2);
  const std::byte* packed = block + 4;
  for (int g = 0; g < 8; ++g) {
    int scale = 0;
    int minimum = 0;
    if (g < 4) {
      scale = byte_at(packed, g) & 63;
      minimum = byte_at(packed, g + 4) & 63;
    } else {
      scale = (byte_at(packed, g + 4) & 15) | (byte_at(packed, g - 4) >> 6) << 4;
      minimum = (byte_at(packed, g + 4) >> 4) | (byte_at(packed, g) >> 6) << 4;
    }
    to.scales[g] = d * static_cast<float>(scale);
    to.minima[g] = -(d_min * static_cast<float>(minimum));
  }
}

// … then 128 bytes: each 32 hold the low nibbles of one group and the high ones of the next.
void q4_k(const std::byte* block, const RowCodes& to) {
  k_scales(block, to);
  const std::byte* low = block + 16;
  for (int i = 0; i < 256; ++i) {
    const int group = i / 32;
    const int both = byte_at(low, group / 2 * 32 + i % 32);
    to.codes[i] = static_cast<int8_t>(both >> (group % 2 * 4) & 15);
  }
}

// … then 32 bytes of fifth bits (bit g: group g), then nibbles as in Q4_K.
void q5_k(const std::byte* block, const RowCodes& to) {
  k_scales(block, to);
  const std::byte* high = block + 16;
  const std::byte* low = block + 48;
  for (int i = 0; i < 256; ++i) {
    const int group = i / 32;
    const int both = byte_at(low, group / 2 * 32 + i % 32);
    const int bit = byte_at(high, i % 32) >> group & 1;
    to.codes[i] = static_cast<int8_t>((both >> (group % 2 * 4) & 15) | bit << 4);
  }
}

// {128 bytes of nibbles, 64 bytes of bit pairs, 16 x i8 scale, f16 d}; codes are stored + 32.
// Each half of 128 elements is four runs of 32: runs 0 and 1 take low nibbles of bytes 0-31 and
// 32-63, runs 2 and 3 the high ones; the upper two bits of run r are bits 2r of 32 bytes.
void q6_k(const std::byte* block, const RowCodes& to) {
  const float d = f16_at(block + 208);
  for (int g = 0; g < 16; ++g) {
    to.scales[g] = d * static_cast<float>(static_cast<int8_t>(byte_at(block + 192, g)));
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int run = i % 128 / 32;
    const int low = byte_at(block, half * 64 + run % 2 * 32 + i % 32) >> (run / 2 * 4) & 15;
    const int high = byte_at(block + 128, half * 32 + i % 32) >> (run * 2) & 3;
    to.codes[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

using BlockDecoder = void (*)(const std::byte* block, const RowCodes& to);

BlockDecoder block_decoder(SourceType type) {
  switch (type) {
    case SourceType::kQ8_0:
      return q8_0;
    case SourceType::kQ4_0:
      return q4_0;
    case SourceType::kQ4_1:
      return q4_1;
    case SourceType::kQ5_0:
      return q5_0;
    case SourceType::kQ5_1:
      return q5_1;
    case SourceType::kQ4_K:
      return q4_k;
    case SourceType::kQ5_K:
      return q5_k;
    case SourceType::kQ6_K:
      return q6_k;
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBf16:
    case SourceType::kI8:
    case SourceType::kU8:
    case SourceType::kI4:
    case SourceType::kU4:
    case SourceType::kU2:
      break;
  }
  KVERN_CHECK(false, "source type {} has no codes", static_cast<int>(type));
}

}  // namespace

void decode_codes(SourceType type, const std::byte* row, int64_t k, const RowCodes& to) {
  const ir::SourceTypeInfo& info = ir::source_type_info(type);
  const BlockDecoder decode = block_decoder(type);
  const int groups = info.block_elements / info.exact.group;
  const int64_t blocks = k / info.block_elements;
  for (int64_t b = 0; b < blocks; ++b) {
    decode(row + b * info.block_bytes,
           {to.codes + b * info.block_elements, to.scales + b * groups, to.minima + b * groups});
  }
}

void decode_floats(SourceType type, const std::byte* row, int64_t k, float* to) {
  switch (type) {
    case SourceType::kF32:
      std::memcpy(to, row, static_cast<size_t>(k) * 4);
      return;
    case SourceType::kF16:
      for (int64_t i = 0; i < k; ++i) to[i] = f16_to_f32(u16_at(row + 2 * i));
      return;
    case SourceType::kBf16:
      for (int64_t i = 0; i < k; ++i) to[i] = bf16_to_f32(u16_at(row + 2 * i));
      return;
    default:
      KVERN_CHECK(false, "source type {} is no float type", static_cast<int>(type));
  }
}

}  // namespace kvern::quantize
