#include "compile/quantize/quantize_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/float_bits.h"

namespace kvern::quantize {
namespace {

[[noreturn]] void bad_value(const std::string& weight, int64_t row, const char* what) {
  throw Error(Code::kInvalidModel,
              fmt::format("weight '{}', row {}: {}; build with --weights f32 or bf16, or take "
                          "the model from its source again",
                          weight, row, what));
}

template <uint16_t (*kRound)(float)>
void round_floats(const float* x, int64_t k, std::byte* to) {
  for (int64_t i = 0; i < k; ++i) {
    const uint16_t bits = kRound(x[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

void store_floats(const float* x, int64_t row, const std::string& weight, kernels::CodedRows& to) {
  const int64_t row_bytes = dtype_bytes(to.format.storage, to.k);
  std::byte* out = to.codes.data() + row * row_bytes;
  switch (to.format.storage) {
    case DType::kF32:
      std::memcpy(out, x, static_cast<size_t>(row_bytes));
      return;
    case DType::kBf16:
      round_floats<f32_to_bf16>(x, to.k, out);
      return;
    case DType::kF16:
      for (int64_t i = 0; i < to.k; ++i) {
        // 65520 and above would become infinite.
        if (std::fabs(x[i]) >= 65520.0f) bad_value(weight, row, "a value is beyond f16's range");
      }
      round_floats<f32_to_f16>(x, to.k, out);
      return;
    default:
      KVERN_CHECK(false, "weights have no storage '{}'", dtype_name(to.format.storage));
  }
}

struct Coding {
  float scale = 0;
  float minimum = 0;
};

struct Range {
  float low, high;  // codes
};

Range code_range(const QuantFormat& format) {
  if (format.storage == DType::kI8) {
    return format.has_min ? Range{-128, 127} : Range{-127, 127};
  }
  return format.has_min ? Range{0, 15} : Range{-8, 7};
}

// Symmetric: i8 maps the largest magnitude to 127; i4 maps the extreme value to -8, the longer end.
// With a minimum: the ends of the range are the ends of the codes.
Coding choose_coding(const float* x, int64_t count, const QuantFormat& format) {
  const auto [low, high] = std::minmax_element(x, x + count);
  const Range range = code_range(format);
  if (format.has_min) {
    const float scale = round_scale((*high - *low) / (range.high - range.low), format.scale);
    return {scale, round_scale(*low - range.low * scale, format.scale)};
  }
  const float extreme = std::fabs(*low) > std::fabs(*high) ? *low : *high;
  if (format.storage == DType::kI8) {
    return {round_scale(std::fabs(extreme) / range.high, format.scale), 0};
  }
  return {round_scale(extreme / range.low, format.scale), 0};
}

void code_group(const float* x, int64_t count, const QuantFormat& format, const Coding& coding,
                std::byte* codes) {
  if (coding.scale == 0) {  // every code reads as the minimum
    std::memset(codes, 0, static_cast<size_t>(count));
    return;
  }
  const Range range = code_range(format);
  // Adding and taking away 1.5 * 2^23 rounds to nearest even, as nearbyint does, but in vectors
  // also where only SSE2 is assumed; clamped codes are far below 2^22.
  constexpr float kRounder = 12582912.0f;
  auto* out = reinterpret_cast<int8_t*>(codes);
  for (int64_t i = 0; i < count; ++i) {
    const float code = std::clamp((x[i] - coding.minimum) / coding.scale, range.low, range.high);
    out[i] = static_cast<int8_t>((code + kRounder) - kRounder);
  }
}

}  // namespace

float round_scale(float value, DType scale) {
  return scale == DType::kF16 ? f16_to_f32(f32_to_f16(value)) : value;
}

void allocate(kernels::CodedRows& to) {
  const auto cells = static_cast<size_t>(to.n * to.k);
  if (!to.format.quantised()) {
    to.codes.resize(cells * static_cast<size_t>(dtype_bits(to.format.storage)) / 8);
    return;
  }
  to.codes.resize(cells);
  const auto groups = static_cast<size_t>(to.n * to.format.groups(to.k));
  to.scales.resize(groups);
  if (to.format.has_min) to.minima.resize(groups);
}

void quantize_row(const float* x, int64_t row, const std::string& weight, kernels::CodedRows& to) {
  if (!to.format.quantised()) return store_floats(x, row, weight, to);
  for (int64_t i = 0; i < to.k; ++i) {
    if (!std::isfinite(x[i])) bad_value(weight, row, "a value is NaN or infinite");
  }
  const int64_t groups = to.format.groups(to.k);
  const int64_t group = to.format.group == 0 ? to.k : to.format.group;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = g * group;
    const int64_t count = std::min(group, to.k - begin);
    const Coding coding = choose_coding(x + begin, count, to.format);
    if (!std::isfinite(coding.scale) || !std::isfinite(coding.minimum)) {
      bad_value(weight, row, "a scale is beyond f16's range");
    }
    code_group(x + begin, count, to.format, coding, to.codes.data() + row * to.k + begin);
    const auto at = static_cast<size_t>(row * groups + g);
    to.scales[at] = coding.scale;
    if (to.format.has_min) to.minima[at] = coding.minimum;
  }
}

void apply_scales(const int8_t* codes, const float* scales, const float* minima, int64_t k,
                  int64_t group, float* to) {
  for (int64_t begin = 0; begin < k; begin += group) {
    const int64_t end = std::min(begin + group, k);
    const float scale = scales[begin / group];
    if (minima == nullptr) {
      for (int64_t i = begin; i < end; ++i) to[i] = scale * static_cast<float>(codes[i]);
    } else {
      const float minimum = minima[begin / group];
      for (int64_t i = begin; i < end; ++i) to[i] = scale * static_cast<float>(codes[i]) + minimum;
    }
  }
}

void dequantize_row(const kernels::CodedRows& from, int64_t row, float* to) {
  const int64_t k = from.k;
  if (!from.format.quantised()) {
    const std::byte* in = from.codes.data() + row * dtype_bytes(from.format.storage, k);
    for (int64_t i = 0; i < k; ++i) {
      uint16_t bits = 0;
      if (from.format.storage == DType::kF32) {
        std::memcpy(&to[i], in + 4 * i, 4);
        continue;
      }
      std::memcpy(&bits, in + 2 * i, 2);
      to[i] = from.format.storage == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
    return;
  }
  const int64_t group = from.format.group == 0 ? k : from.format.group;
  const int64_t first = row * from.format.groups(k);
  apply_scales(reinterpret_cast<const int8_t*>(from.codes.data()) + row * k,
               from.scales.data() + first,
               from.format.has_min ? from.minima.data() + first : nullptr, k, group, to);
}

}  // namespace kvern::quantize
