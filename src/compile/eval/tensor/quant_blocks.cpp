// com.microsoft's weights of 2, 4 and 8 bits in blocks: MatMulNBits and GatherBlockQuantized.
#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/floats.h"
#include "compile/eval/tensor/gemm.h"

namespace kvern::eval {
namespace {

// Code `index` of a row of packed bytes, lowest bits first.
float packed_code(const uint8_t* row, int64_t index, int64_t bits) {
  const int64_t per_byte = 8 / bits;
  const auto shift = static_cast<unsigned>(index % per_byte * bits);
  return static_cast<float>((row[index / per_byte] >> shift) & ((1U << bits) - 1));
}

int64_t bits_attr(const OpCall& call) {
  const int64_t bits = call.node.i("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) {
    call.unsupported(fmt::format("weights of {} bits are not supported, of 2, 4 and 8 are", bits));
  }
  return bits;
}

int64_t block_attr(const OpCall& call, int64_t otherwise) {
  const int64_t block = call.node.i("block_size", otherwise);
  if (block < 16 || block > (1 << 20) || (block & (block - 1)) != 0) {
    call.fail(fmt::format("block_size is {}; a power of two from 16 on is wanted", block));
  }
  return block;
}

// MatMulNBits' weights: codes [n, blocks, block * bits / 8], scales [n, blocks].
struct PackedWeights {
  int64_t n, k, bits, block, blocks;
  const uint8_t* codes;
  Array scales;
  Array float_zeros;               // [n, blocks]; no type: none
  const uint8_t* zeros = nullptr;  // packed, rows of whole bytes

  float zero_of(int64_t row, int64_t at) const {
    if (zeros != nullptr) {
      return packed_code(zeros + row * ceil_div(blocks * bits, 8), at, bits);
    }
    if (float_zeros.type() == ElementType::kUndefined) return static_cast<float>(1 << (bits - 1));
    return float_zeros.as<float>()[static_cast<size_t>(row * blocks + at)];
  }
};

void want_count(const OpCall& call, size_t index, int64_t count) {
  if (call.in(index).count() != count) {
    call.fail(fmt::format("input {} has shape {}; {} elements are wanted", index,
                          to_string(call.in(index).shape()), count));
  }
}

PackedWeights packed_weights(const OpCall& call) {
  PackedWeights w{};
  w.k = call.node.i("K", 0);
  w.n = call.node.i("N", 0);
  w.bits = bits_attr(call);
  w.block = block_attr(call, 0);
  constexpr int64_t kMost = int64_t{1} << 31;
  if (w.k <= 0 || w.n <= 0 || w.k > kMost || w.n > kMost) {
    call.fail(fmt::format("K is {} and N is {}", w.k, w.n));
  }
  w.blocks = ceil_div(w.k, w.block);
  if (call.has(4)) call.unsupported("g_idx (reordered groups) is not supported");
  if (call.node.i("weight_prepacked", 0) != 0) {
    call.unsupported("weight_prepacked layouts are made for one GPU; export without prepacking");
  }
  if (call.in(1).type() != ElementType::kUint8) call.fail("B must hold uint8");
  want_count(call, 1, w.n * w.blocks * (w.block * w.bits / 8));
  want_count(call, 2, w.n * w.blocks);
  w.codes = call.in(1).as<uint8_t>().data();
  w.scales = floats_in(call, 2);
  if (call.has(3)) {
    const bool packed = call.in(3).type() == ElementType::kUint8;
    want_count(call, 3, w.n * (packed ? ceil_div(w.blocks * w.bits, 8) : w.blocks));
    if (packed) {
      w.zeros = call.in(3).as<uint8_t>().data();
    } else {
      w.float_zeros = floats_in(call, 3);
    }
  }
  return w;
}

// [n, k] in f32.
Array unpacked(const PackedWeights& w) {
  Array out(ElementType::kFloat, {w.n, w.k});
  float* to = out.mutable_as<float>().data();
  const float* scales = w.scales.as<float>().data();
  const int64_t row_bytes = w.blocks * (w.block * w.bits / 8);
  for (int64_t row = 0; row < w.n; ++row, to += w.k) {
    const uint8_t* codes = w.codes + row * row_bytes;
    for (int64_t at = 0; at < w.blocks; ++at) {
      const float scale = scales[row * w.blocks + at];
      const float zero = w.zero_of(row, at);
      const int64_t end = std::min((at + 1) * w.block, w.k);
      for (int64_t i = at * w.block; i < end; ++i) {
        to[i] = (packed_code(codes, i, w.bits) - zero) * scale;
      }
    }
  }
  return out;
}

// What GatherBlockQuantized knows of its data; all in elements after unpacking.
struct BlockTable {
  Shape shape;
  Array codes;  // f32
  Array zeros;  // f32 of the scales' shape; no type: none
  float zero = 0;
};

// Bytes of packed codes along the last axis, as f32 of the unpacked shape.
Array unpack_bytes(const Array& bytes, int64_t bits, int64_t last) {
  Shape shape = bytes.shape();
  const int64_t row_bytes = shape.back();
  shape.back() = last;
  Array out(ElementType::kFloat, shape);
  float* to = out.mutable_as<float>().data();
  const uint8_t* from = bytes.as<uint8_t>().data();
  const int64_t rows = row_bytes == 0 ? 0 : bytes.count() / row_bytes;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < last; ++i) {
      *to++ = packed_code(from + row * row_bytes, i, bits);
    }
  }
  return out;
}

BlockTable block_table(const OpCall& call, const Array& scales) {
  const Array& data = call.in(0);
  if (data.rank() < 1) call.fail("the data must have an axis");
  const int64_t bits = bits_attr(call);
  BlockTable table;
  table.shape = data.shape();
  if (data.type() != ElementType::kUint8) {
    table.codes = to_floats(data);
    if (call.has(3)) table.zeros = to_floats(call.in(3));
  } else {
    table.shape.back() *= 8 / bits;
    table.codes = unpack_bytes(data, bits, table.shape.back());
    table.zero = static_cast<float>(1 << (bits - 1));
    if (call.has(3)) {
      const Array& packed = call.in(3);
      const bool fits = packed.type() == ElementType::kUint8 && packed.rank() == scales.rank() &&
                        packed.rank() > 0 &&
                        packed.shape().back() == ceil_div(scales.shape().back() * bits, 8);
      if (!fits) call.fail("packed zero points do not fit the scales");
      table.zeros = unpack_bytes(packed, bits, scales.shape().back());
    }
  }
  if (call.has(3) && table.zeros.shape() != scales.shape()) {
    call.fail("zero points do not have the shape of the scales");
  }
  return table;
}

Array dequantised(const OpCall& call, const BlockTable& table, const Array& scales, int64_t axis,
                  int64_t block) {
  Shape wanted = table.shape;
  int64_t& blocks = wanted[static_cast<size_t>(axis)];
  blocks = ceil_div(blocks, block);
  if (scales.shape() != wanted) {
    call.fail(fmt::format("scales of shape {} where {} is wanted", to_string(scales.shape()),
                          to_string(wanted)));
  }
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < wanted.size(); ++d) inner *= wanted[d];
  const int64_t dim = table.shape[static_cast<size_t>(axis)];
  Array values = table.codes;
  const auto to = values.mutable_as<float>();
  const auto factors = scales.as<float>();
  const bool own_zero = table.zeros.type() != ElementType::kUndefined;
  const float* zeros = own_zero ? table.zeros.as<float>().data() : nullptr;
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / inner;
    const int64_t at =
        (row / dim * blocks + row % dim / block) * inner + static_cast<int64_t>(i) % inner;
    const auto s = static_cast<size_t>(at);
    to[i] = (to[i] - (own_zero ? zeros[s] : table.zero)) * factors[s];
  }
  return values;
}

}  // namespace

Arrays eval_matmul_n_bits(const OpCall& call) {
  const Array a = floats_in(call, 0);
  const PackedWeights w = packed_weights(call);
  if (a.rank() == 0 || a.shape().back() != w.k) {
    call.fail(fmt::format("A of shape {} does not end in K = {}", to_string(a.shape()), w.k));
  }
  Shape shape = a.shape();
  shape.back() = w.n;
  Array out(ElementType::kFloat, shape);
  if (out.count() > 0) {
    const Array b = unpacked(w);
    const Product product = {{a.as<float>().data(), w.k, 1},
                             {b.as<float>().data(), 1, w.k},
                             out.mutable_as<float>().data(),
                             a.count() / w.k,
                             w.n,
                             w.k};
    multiply(&product, 1);
  }
  if (call.has(5)) {
    out = combine<float, float, float>(call, out, floats_in(call, 5), ElementType::kFloat,
                                       [](float x, float y) { return x + y; });
    if (out.shape() != shape) call.fail("the bias is larger than the product");
  }
  return {from_floats(out, call.in(0).type())};
}

Arrays eval_gather_block_quantized(const OpCall& call) {
  const int64_t rank = call.in(0).rank();
  const int64_t gather = normal_axis(call, call.node.i("gather_axis", 0), rank);
  const int64_t axis = normal_axis(call, call.node.i("quantize_axis", 1), rank);
  const int64_t block = block_attr(call, 128);
  if (gather == axis) call.unsupported("gathering along the axis of the blocks is not supported");
  // Rows first, numbers then: a whole vocabulary is never dequantised.
  const Array indices = call.in(1).reshaped({call.in(1).count()});
  TensorNode node = call.node;
  node.attrs["axis"] = gather;
  const auto rows = [&](size_t index) {
    const Array* const inputs[] = {&call.in(index), &indices};
    return eval_gather({node, inputs, {}})[0];
  };
  const Array data = rows(0);
  const Array row_scales = rows(2);
  const Array zeros = call.has(3) ? rows(3) : Array();
  const Array* const gathered[] = {&data, &indices, &row_scales, call.has(3) ? &zeros : nullptr};
  const OpCall inner{node, gathered, {}};
  const Array scales = floats_in(inner, 2);
  const BlockTable table = block_table(inner, scales);
  Array out = dequantised(inner, table, scales, axis, block);
  Shape shape = table.shape;
  shape.erase(shape.begin() + gather);
  shape.insert(shape.begin() + gather, call.in(1).shape().begin(), call.in(1).shape().end());
  return {from_floats(out.reshaped(shape), call.in(2).type())};
}

}  // namespace kvern::eval
