// Blocks of A and B are copied into panels, as in Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008; a micro-kernel then keeps kRows x kColumns sums in
// registers.
#include "compile/eval/tensor/gemm.h"

#include <immintrin.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "compile/ir/work_budget.h"

namespace kvern::eval {
namespace {

constexpr int64_t kBlockK = 256;   // a panel of B: 32 KiB, stays in L1
constexpr int64_t kBlockN = 2048;  // a block of B: 2 MiB
constexpr int64_t kMaxTile = 16 * 48;

// sums[rows][columns] = panel of A x panel of B.   a: [k][rows], b: [k][columns]
struct Kernel {
  int64_t rows, columns;
  void (*run)(int64_t k, const float* a, const float* b, float* sums);
};

[[gnu::target("avx512f")]] void run_avx512(int64_t k, const float* a, const float* b, float* sums) {
  __m512 s[12][2];
#pragma GCC unroll 12
  for (int r = 0; r < 12; ++r) s[r][0] = s[r][1] = _mm512_setzero_ps();
  for (int64_t i = 0; i < k; ++i, a += 12, b += 32) {
    const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 12
    for (int r = 0; r < 12; ++r) {
      const __m512 x = _mm512_set1_ps(a[r]);
      s[r][0] = _mm512_fmadd_ps(x, b0, s[r][0]);
      s[r][1] = _mm512_fmadd_ps(x, b1, s[r][1]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < 12; ++r) {
    _mm512_storeu_ps(sums + r * 32, s[r][0]);
    _mm512_storeu_ps(sums + r * 32 + 16, s[r][1]);
  }
}

[[gnu::target("avx2,fma")]] void run_avx2(int64_t k, const float* a, const float* b, float* sums) {
  __m256 s[6][2];
#pragma GCC unroll 6
  for (int r = 0; r < 6; ++r) s[r][0] = s[r][1] = _mm256_setzero_ps();
  for (int64_t i = 0; i < k; ++i, a += 6, b += 16) {
    const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int r = 0; r < 6; ++r) {
      const __m256 x = _mm256_set1_ps(a[r]);
      s[r][0] = _mm256_fmadd_ps(x, b0, s[r][0]);
      s[r][1] = _mm256_fmadd_ps(x, b1, s[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < 6; ++r) {
    _mm256_storeu_ps(sums + r * 16, s[r][0]);
    _mm256_storeu_ps(sums + r * 16 + 8, s[r][1]);
  }
}

void run_plain(int64_t k, const float* a, const float* b, float* sums) {
  float s[4][8] = {};
  for (int64_t i = 0; i < k; ++i, a += 4, b += 8) {
    for (int r = 0; r < 4; ++r) {
      for (int c = 0; c < 8; ++c) s[r][c] += a[r] * b[c];
    }
  }
  std::copy(&s[0][0], &s[0][0] + 32, sums);
}

const Kernel& kernel() {
  static const Kernel chosen = [] {
    if (__builtin_cpu_supports("avx512f")) return Kernel{12, 32, run_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      return Kernel{6, 16, run_avx2};
    }
    return Kernel{4, 8, run_plain};
  }();
  return chosen;
}

// [count][width] panel of a matrix seen as [count, wide]: zeros beyond `width_left`.
void pack_panel(const float* from, int64_t along, int64_t across, int64_t count, int64_t width,
                int64_t width_left, float* to) {
  const int64_t used = std::min(width, width_left);
  if (along == 1 && used > 1) {
    if (used < width) std::fill_n(to, count * width, 0.0f);
    for (int64_t w = 0; w < used; ++w) {
      const float* line = from + w * across;
      for (int64_t i = 0; i < count; ++i) to[i * width + w] = line[i];
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i, to += width) {
    const float* line = from + i * along;
    for (int64_t w = 0; w < used; ++w) to[w] = line[w * across];
    std::fill(to + used, to + width, 0.0f);
  }
}

void store_tile(const float* sums, int64_t columns, float* c, int64_t row_stride, int64_t rows_left,
                int64_t columns_left, bool add) {
  for (int64_t r = 0; r < rows_left; ++r) {
    const float* from = sums + r * columns;
    float* to = c + r * row_stride;
    if (add) {
      for (int64_t j = 0; j < columns_left; ++j) to[j] += from[j];
    } else {
      std::copy_n(from, columns_left, to);
    }
  }
}

using ParallelFor = FunctionRef<void(int64_t, FunctionRef<void(int64_t)>)>;

// Few rows: B is read once as it lies, without a copy.
void multiply_few_rows(const Product& p, int64_t begin, int64_t end) {
  for (int64_t r = 0; r < p.m; ++r) {
    const float* a = p.a.data + r * p.a.row_stride;
    float* c = p.c + r * p.n;
    if (p.b.row_stride == 1) {
      for (int64_t j = begin; j < end; ++j) {
        const float* b = p.b.data + j * p.b.column_stride;
        float lanes[16] = {};
        int64_t i = 0;
        for (; i + 16 <= p.k; i += 16) {
          for (int l = 0; l < 16; ++l) lanes[l] += a[(i + l) * p.a.column_stride] * b[i + l];
        }
        for (; i < p.k; ++i) lanes[i % 16] += a[i * p.a.column_stride] * b[i];
        float sum = 0;
        for (const float lane : lanes) sum += lane;
        c[j] = sum;
      }
      continue;
    }
    std::fill(c + begin, c + end, 0.0f);
    for (int64_t i = 0; i < p.k; ++i) {
      const float x = a[i * p.a.column_stride];
      const float* b = p.b.data + i * p.b.row_stride;
      if (p.b.column_stride == 1) {
        for (int64_t j = begin; j < end; ++j) c[j] += x * b[j];
      } else {
        for (int64_t j = begin; j < end; ++j) c[j] += x * b[j * p.b.column_stride];
      }
    }
  }
}

// One block of B against all rows of A.
void multiply_block(const Product& p, int64_t n0, int64_t k0, ParallelFor parallel) {
  const Kernel& kern = kernel();
  const int64_t n_count = std::min(kBlockN, p.n - n0), k_count = std::min(kBlockK, p.k - k0);
  const int64_t panels = ceil_div(n_count, kern.columns);
  std::vector<float> packed_b(static_cast<size_t>(panels * kern.columns * k_count));
  parallel(panels, [&](int64_t panel) {
    const int64_t column = panel * kern.columns;
    pack_panel(p.b.data + k0 * p.b.row_stride + (n0 + column) * p.b.column_stride, p.b.row_stride,
               p.b.column_stride, k_count, kern.columns, n_count - column,
               packed_b.data() + column * k_count);
  });
  // Rows in groups, so that there are tasks enough and a group's panels of A stay in L2.
  const int64_t row_panels = ceil_div(p.m, kern.rows);
  const int64_t group = std::min<int64_t>(8, row_panels);
  const int64_t column_parts = row_panels / group >= 8 ? 1 : std::min<int64_t>(8, panels);
  const int64_t groups = ceil_div(row_panels, group);
  parallel(groups * column_parts, [&](int64_t task) {
    const int64_t row0 = task / column_parts * group * kern.rows;
    const int64_t row1 = std::min(p.m, row0 + group * kern.rows);
    const int64_t part = task % column_parts;
    const int64_t panel0 = panels * part / column_parts;
    const int64_t panel1 = panels * (part + 1) / column_parts;
    std::vector<float> packed_a(static_cast<size_t>(group * kern.rows * k_count));
    for (int64_t row = row0; row < row1; row += kern.rows) {
      pack_panel(p.a.data + row * p.a.row_stride + k0 * p.a.column_stride, p.a.column_stride,
                 p.a.row_stride, k_count, kern.rows, p.m - row,
                 packed_a.data() + (row - row0) * k_count);
    }
    alignas(64) float sums[kMaxTile];
    for (int64_t panel = panel0; panel < panel1; ++panel) {
      const int64_t column = panel * kern.columns;
      for (int64_t row = row0; row < row1; row += kern.rows) {
        kern.run(k_count, packed_a.data() + (row - row0) * k_count,
                 packed_b.data() + column * k_count, sums);
        store_tile(sums, kern.columns, p.c + row * p.n + n0 + column, p.n,
                   std::min(kern.rows, p.m - row), std::min(kern.columns, n_count - column),
                   k0 > 0);
      }
    }
  });
}

void multiply_one(const Product& p, ParallelFor parallel) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    std::fill_n(p.c, p.m * p.n, 0.0f);
    return;
  }
  if (p.m < 4) {
    constexpr int64_t kPart = 1024;
    parallel(ceil_div(p.n, kPart), [&](int64_t part) {
      multiply_few_rows(p, part * kPart, std::min(p.n, (part + 1) * kPart));
    });
    return;
  }
  for (int64_t n0 = 0; n0 < p.n; n0 += kBlockN) {
    for (int64_t k0 = 0; k0 < p.k; k0 += kBlockK) multiply_block(p, n0, k0, parallel);
  }
}

// One pool for the process, made when it is first used. Who comes while it is busy computes alone.
class SharedPool {
 public:
  void run(int64_t tasks, bool worth_it, FunctionRef<void(int64_t)> fn) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!worth_it || tasks < 2 || !lock.owns_lock()) {
      for (int64_t task = 0; task < tasks; ++task) fn(task);
      return;
    }
    pool_.parallel_for(tasks, [&](int64_t task, int) { fn(task); });
  }

 private:
  std::mutex mutex_;
  ThreadPool pool_{std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16)};
};

}  // namespace

void multiply(const Product* products, int64_t count) {
  static SharedPool pool;
  for (int64_t i = 0; i < count; ++i) {
    const Product& p = products[i];
    ir::spend_multiply_adds(static_cast<double>(p.m) * static_cast<double>(p.n) *
                            static_cast<double>(p.k));
  }
  ir::check_stop();
  const auto alone = [](int64_t tasks, FunctionRef<void(int64_t)> fn) {
    for (int64_t task = 0; task < tasks; ++task) fn(task);
  };
  if (count > 1) {
    const int64_t work = products[0].m * products[0].n * products[0].k;
    pool.run(count, work * count > 200000, [&](int64_t i) { multiply_one(products[i], alone); });
  } else if (count == 1) {
    const bool large = products[0].m * products[0].n * products[0].k > 200000;
    const auto together = [&](int64_t tasks, FunctionRef<void(int64_t)> fn) {
      ir::check_stop();
      pool.run(tasks, large, fn);
    };
    multiply_one(products[0], together);
  }
}

}  // namespace kvern::eval
