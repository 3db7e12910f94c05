// Products of integers, exact in int32, and com.microsoft's fused products.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/floats.h"
#include "compile/eval/tensor/gemm.h"

namespace kvern::eval {
namespace {

// Codes as f32, in which they and their differences are exact.
Array code_floats(const OpCall& call, const Array& array) {
  if (array.type() != ElementType::kUint8 && array.type() != ElementType::kInt8) {
    call.unsupported(fmt::format("products of {} are not supported, those of uint8 and int8 are",
                                 ir::element_type_name(array.type())));
  }
  return to_floats(array);
}

// Codes minus zero points: one for all, or one for each index of the row axis (of a) or of the
// column axis (of b).
Array centred(const OpCall& call, const Array& codes, size_t zero_index, bool per_row) {
  const Array out = code_floats(call, codes);
  if (!call.has(zero_index)) return out;
  Array zeros = code_floats(call, call.in(zero_index));
  if (per_row && zeros.rank() == 1 && zeros.count() > 1) {
    zeros = zeros.reshaped({zeros.count(), 1});
  }
  Array differences = combine<float, float, float>(call, out, zeros, ElementType::kFloat,
                                                   [](float a, float b) { return a - b; });
  if (differences.shape() != out.shape()) {
    call.fail("zero points are of a larger shape than the matrix");
  }
  return differences;
}

// Products of numbers up to 255 are exact in f32 up to this many of them: 256 * 255^2 < 2^24.
constexpr int64_t kExactDepth = 256;

// One product of [m, k] and [k, n], exact in int32.
void multiply_exactly(const float* a, const float* b, int32_t* c, int64_t m, int64_t k, int64_t n) {
  std::vector<float> part(static_cast<size_t>(m * n));
  for (int64_t begin = 0; begin < k; begin += kExactDepth) {
    const int64_t depth = std::min(kExactDepth, k - begin);
    const Product product = {{a + begin, k, 1}, {b + begin * n, n, 1}, part.data(), m, n, depth};
    multiply(&product, 1);
    for (size_t i = 0; i < part.size(); ++i) {  // unsigned: a sum over too much wraps
      c[i] = static_cast<int32_t>(static_cast<uint32_t>(c[i]) +
                                  static_cast<uint32_t>(static_cast<int32_t>(part[i])));
    }
  }
}

// [.., m, k] times [.., k, n], both centred codes.
Array multiply_codes(const OpCall& call, Array a, Array b) {
  if (a.rank() == 0 || b.rank() == 0) call.fail("a scalar is no matrix");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = a.reshaped({1, a.count()});
  if (column) b = b.reshaped({b.count(), 1});
  const Shape& sa = a.shape();
  const Shape& sb = b.shape();
  const int64_t m = sa[sa.size() - 2], k = sa.back(), n = sb.back();
  if (sb[sb.size() - 2] != k) {
    call.fail(fmt::format("shapes {} and {} do not multiply", to_string(sa), to_string(sb)));
  }
  const Array batch_a(ElementType::kBool, Shape(sa.begin(), sa.end() - 2));
  const Array batch_b(ElementType::kBool, Shape(sb.begin(), sb.end() - 2));
  const Array* both[] = {&batch_a, &batch_b};
  Shape shape = broadcast_shape(call, both);
  const Walk walk(shape, {broadcast_strides(batch_a.shape(), shape),
                          broadcast_strides(batch_b.shape(), shape)});
  if (!row) shape.push_back(m);
  if (!column) shape.push_back(n);
  Array out(ElementType::kInt32, shape);
  if (out.count() == 0 || k == 0) return out;
  int32_t* c = out.mutable_as<int32_t>().data();
  walk.rows([&](const auto& at) {
    for (int64_t i = 0; i < walk.inner_count(); ++i, c += m * n) {
      multiply_exactly(a.as<float>().data() + (at[0] + i * walk.inner_stride(0)) * m * k,
                       b.as<float>().data() + (at[1] + i * walk.inner_stride(1)) * k * n, c, m, k,
                       n);
    }
  });
  return out;
}

float one_float(const OpCall& call, size_t index) {
  const Array array = floats_in(call, index);
  if (array.count() != 1) {
    call.unsupported(fmt::format("input {} of shape {} where one scale is supported", index,
                                 to_string(array.shape())));
  }
  return array.as<float>()[0];
}

// product * a_scale * b_scale (+ bias), with b_scale one number or one per column.
Array scaled(const OpCall& call, const Array& product, float a_scale, size_t b_scale, size_t bias) {
  Array out = combine<int32_t, float, float>(
      call, product, floats_in(call, b_scale), ElementType::kFloat,
      [a_scale](int32_t sum, float scale) { return static_cast<float>(sum) * (a_scale * scale); });
  if (call.has(bias)) {
    out = combine<float, float, float>(call, out, floats_in(call, bias), ElementType::kFloat,
                                       [](float a, float b) { return a + b; });
  }
  if (out.shape() != product.shape()) call.fail("scales or bias are larger than the product");
  return out;
}

// A matrix with its batch dims rotated and its last two swapped, as FusedMatMul's attributes say.
Array turned(const OpCall& call, size_t index, const char* swap, const char* batch) {
  Array array = call.in(index);
  if (array.rank() < 2) return array;
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < array.rank(); ++i) perm.push_back(i);
  if (call.node.i(batch, 0) != 0) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (call.node.i(swap, 0) != 0) std::swap(perm[perm.size() - 2], perm.back());
  return transposed(array, perm);
}

}  // namespace

Arrays eval_matmul_integer(const OpCall& call) {
  return {multiply_codes(call, centred(call, call.in(0), 2, true),
                         centred(call, call.in(1), 3, false))};
}

Arrays eval_qlinear_matmul(const OpCall& call) {
  const Array product =
      multiply_codes(call, centred(call, call.in(0), 2, true), centred(call, call.in(3), 5, false));
  const float a_scale = one_float(call, 1);
  const float y_scale = one_float(call, 6);
  const Array scaled_product = scaled(call, product, a_scale / y_scale, 4, 8);
  const Array& zero = call.in(7);
  if (zero.count() != 1) {
    call.unsupported(fmt::format("a zero point of shape {} where one number is supported",
                                 to_string(zero.shape())));
  }
  const int64_t zero_point = integers_of(call, 7)[0];
  Array out(zero.type(), product.shape());
  const auto from = scaled_product.as<float>();
  const bool is_signed = zero.type() == ElementType::kInt8;
  if (!is_signed && zero.type() != ElementType::kUint8) {
    call.unsupported("results other than uint8 and int8 are not supported");
  }
  const float least = is_signed ? -128.0F : 0.0F;
  const float most = is_signed ? 127.0F : 255.0F;
  const std::span<std::byte> to = out.mutable_bytes();
  for (size_t i = 0; i < to.size(); ++i) {
    const float code = std::nearbyint(from[i] + static_cast<float>(zero_point));
    const float kept = std::isnan(code) ? 0.0F : std::clamp(code, least, most);
    to[i] = static_cast<std::byte>(static_cast<int>(kept) & 0xff);
  }
  return {out};
}

Arrays eval_matmul_integer_to_float(const OpCall& call) {
  const Array product =
      multiply_codes(call, centred(call, call.in(0), 4, true), centred(call, call.in(1), 5, false));
  return {scaled(call, product, one_float(call, 2), 3, 6)};
}

Arrays eval_dynamic_quantize_matmul(const OpCall& call) {
  const Array* const x[] = {&call.in(0)};
  const Arrays quantised = eval_dynamic_quantize({call.node, x, {}});
  const Array* const a[] = {&quantised[0], &quantised[2]};
  const OpCall left{call.node, a, {}};
  const Array product = multiply_codes(call, centred(left, quantised[0], 1, true),
                                       centred(call, call.in(1), 3, false));
  return {scaled(call, product, quantised[1].as<float>()[0], 2, 4)};
}

Arrays eval_fused_matmul(const OpCall& call) {
  const Array a = turned(call, 0, "transA", "transBatchA");
  const Array b = turned(call, 1, "transB", "transBatchB");
  const Array* const both[] = {&a, &b};
  Arrays out = eval_matmul({call.node, both, {}});
  const auto alpha = static_cast<float>(call.node.f("alpha", 1.0));
  if (alpha != 1.0F) {
    const Array scaled_out = map_elements<float, float>(to_floats(out[0]), ElementType::kFloat,
                                                        [alpha](float v) { return v * alpha; });
    out[0] = from_floats(scaled_out, call.in(0).type());
  }
  return out;
}

}  // namespace kvern::eval
