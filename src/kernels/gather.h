// Rows picked by index: the embedding of token ids from a packed weight, and rows of an activation.
// Ids are untrusted: out of range is Error(kInvalidRequest) by the caller's check, and the kernel's
// own KVERN_CHECK where it slipped through.
#pragma once

#include "kernels/family.h"
#include "tensor/quant_format.h"

namespace kvern::kernels {

// y[r,:] = table[ids[r],:].   ids: [rows] i32; table: [vocabulary, dim] packed; y: [rows, dim] f32.
struct EmbeddingDesc {
  int64_t vocabulary = 0;
  int64_t dim = 0;
  DType storage = DType::kF32;
  int32_t group = 0;
  DType scale = DType::kF16;
  bool has_min = false;
  QuantFormat format() const { return {storage, group, scale, has_min}; }
  static constexpr auto fields() {
    return std::tuple{field(1, "vocabulary", &EmbeddingDesc::vocabulary),
                      field(2, "dim", &EmbeddingDesc::dim),
                      field(3, "storage", &EmbeddingDesc::storage),
                      field(4, "group", &EmbeddingDesc::group),
                      field(5, "scale", &EmbeddingDesc::scale),
                      field(6, "has_min", &EmbeddingDesc::has_min)};
  }
};

struct EmbeddingArgs {
  const int32_t* ids;
  const std::byte* table;
  float* y;
  int64_t rows;
  int64_t y_stride;
  device::Stream* stream;
};

struct EmbeddingFamily {
  using Desc = EmbeddingDesc;
  using Args = EmbeddingArgs;
  static constexpr const char* kName = "embedding";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc&) { return 2; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

// y[r,:] = x[rows[r],:].   x: [tokens, dim] f32; rows: [wanted] i32; y: [wanted, dim].
struct GatherRowsDesc {
  int64_t dim = 0;
  static constexpr auto fields() { return std::tuple{field(1, "dim", &GatherRowsDesc::dim)}; }
};

struct GatherRowsArgs {
  const float* x;
  const int32_t* rows;
  float* y;
  int64_t x_rows;
  int64_t num_rows;
  int64_t x_stride, y_stride;
  device::Stream* stream;
};

struct GatherRowsFamily {
  using Desc = GatherRowsDesc;
  using Args = GatherRowsArgs;
  static constexpr const char* kName = "gather_rows";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc&) { return 2; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
