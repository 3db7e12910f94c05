// Embedding and gather_rows: copies, so that the plain form is the only one.
#include <cstring>

#include "kernels/cpu/launch.h"
#include "kernels/gather.h"
#include "kernels/pack.h"

namespace kvern::kernels {
namespace {

// y[r,:] = table[ids[r],:].   Moves dim * (bytes per element + 4) per row.
void run_embedding(const EmbeddingDesc& desc, const EmbeddingArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    KVERN_CHECK(args.ids[r] >= 0 && args.ids[r] < desc.vocabulary,
                "embedding: id {} of row {} outside [0, {})", args.ids[r], r, desc.vocabulary);
  }
  cpu::for_rows(args.stream, args.rows, desc.dim * 2, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      unpack_row(desc.format(), desc.vocabulary, desc.dim, args.table, args.ids[r],
                 args.y + r * args.y_stride);
    }
  });
}

// y[r,:] = x[rows[r],:].   Moves 8 * dim bytes per row.
void run_gather_rows(const GatherRowsDesc& desc, const GatherRowsArgs& args) {
  for (int64_t r = 0; r < args.num_rows; ++r) {
    const int32_t row = args.rows[r];
    KVERN_CHECK(row >= 0 && row < args.x_rows, "gather_rows: row {} outside [0, {})", row,
                args.x_rows);
    std::memcpy(args.y + r * args.y_stride, args.x + row * args.x_stride,
                static_cast<size_t>(desc.dim) * sizeof(float));
  }
}

constexpr Impl<EmbeddingDesc, EmbeddingArgs> kEmbeddingCpu[] = {
    {"cpu.embedding.plain", "unpacked.f32", cpu::supports_any, run_embedding},
};

constexpr Impl<GatherRowsDesc, GatherRowsArgs> kGatherRowsCpu[] = {
    {"cpu.gather_rows.plain", "copy", cpu::supports_any, run_gather_rows},
};

}  // namespace

std::span<const Impl<EmbeddingDesc, EmbeddingArgs>> EmbeddingFamily::table() {
  return kEmbeddingCpu;
}

std::span<const Impl<GatherRowsDesc, GatherRowsArgs>> GatherRowsFamily::table() {
  return kGatherRowsCpu;
}

}  // namespace kvern::kernels
