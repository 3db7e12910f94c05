// Select: copies, so that the plain form is the only one.
#include "kernels/select.h"

#include <algorithm>

#include "kernels/cpu/launch.h"

namespace kvern::kernels {
namespace {

void select_row(const SelectDesc& desc, const float* x, float* y) {
  for (size_t i = 0; i < desc.runs.size(); i += 3) {
    const int64_t count = desc.runs[i + 1];
    const int64_t stride = desc.runs[i + 2];
    const float* from = x + desc.runs[i];
    if (stride == 1)
      std::copy_n(from, count, y);
    else if (stride == 0)
      std::fill_n(y, count, *from);
    else
      for (int64_t j = 0; j < count; ++j) y[j] = from[j * stride];
    y += count;
  }
}

// Moves 8 * out_dim bytes per row.
void run_select(const SelectDesc& desc, const SelectArgs& args) {
  cpu::for_rows(args.stream, args.rows, desc.out_dim() / 2, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      select_row(desc, args.x + r * args.x_stride, args.y + r * args.y_stride);
    }
  });
}

constexpr Impl<SelectDesc, SelectArgs> kSelectCpu[] = {
    {"cpu.select.plain", "copy", cpu::supports_any, run_select},
};

}  // namespace

std::span<const Impl<SelectDesc, SelectArgs>> SelectFamily::table() {
  return kSelectCpu;
}

}  // namespace kvern::kernels
