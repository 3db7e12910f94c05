// GB/s of packed weights and GFLOP/s of the linear, with the share of what plain reading and plain
// dot products reach at the same moment on the same threads (KVERN_BENCH_THREADS, else every core).
// With one thread all figures are per CPU second, which other processes disturb least.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "bench/kernels/roof.h"
#include "kernels/linear.h"
#include "tests/kernels/coded_rows.h"

namespace kvern::bench {
namespace {

using kernels::LinearArgs;
using kernels::LinearDesc;
using kernels::LinearFamily;

struct Shape {
  int64_t n, k;
};

// SmolLM2-135M: qkv, out, gate and up, down, head; then a 1B model's up.
constexpr Shape kShapes[] = {{960, 576},  {576, 576},   {3072, 576},
                             {576, 1536}, {49152, 576}, {8192, 2048}};
const QuantFormat kFormats[] = {{DType::kI4, 32, DType::kF16, true},
                                {DType::kI8, 32, DType::kF16, false},
                                {DType::kBf16},
                                {DType::kF16},
                                {DType::kF32}};

ThreadPool& pool() {
  const char* threads = std::getenv("KVERN_BENCH_THREADS");
  static ThreadPool instance(threads != nullptr ? std::atoi(threads) : device::num_usable_cores());
  return instance;
}

// Copies of one weight, more than the caches hold, walked in turn: a model's layers do the same.
struct Weights {
  device::Buffer bytes;
  int64_t copies = 1;
  int64_t copy_bytes = 0;
};

Weights make_weights(const QuantFormat& format, int64_t n, int64_t k) {
  Weights w;
  // KVERN_BENCH_MIB=1 shows the kernels without the memory.
  static const char* mib = std::getenv("KVERN_BENCH_MIB");
  w.copy_bytes = kernels::packed_bytes(format, n, k);
  w.copies =
      std::max<int64_t>(1, (int64_t{mib != nullptr ? std::atoi(mib) : 128} << 20) / w.copy_bytes);
  w.bytes = device::allocate_host(static_cast<size_t>(w.copies * w.copy_bytes));
  const int64_t some = std::min<int64_t>(n, 256);  // random rows, repeated: values do not matter
  const kernels::CodedRows rows = kvern::testing::random_rows(format, some, k, 1);
  const int64_t some_bytes = kernels::packed_bytes(format, some, k);
  kernels::pack(rows, {w.bytes.data(), static_cast<size_t>(some_bytes)});
  for (int64_t at = some_bytes; at < w.copies * w.copy_bytes; at += some_bytes) {
    std::memcpy(w.bytes.data() + at, w.bytes.data(),
                static_cast<size_t>(std::min(some_bytes, w.copies * w.copy_bytes - at)));
  }
  return w;
}

void run_linear(benchmark::State& state, const LinearDesc& desc, int64_t rows,
                const kernels::Impl<LinearDesc, LinearArgs>& impl) {
  const Weights w = make_weights(desc.format(), desc.n, desc.k);
  std::vector<float> x(static_cast<size_t>(rows * desc.k));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<float> y(static_cast<size_t>(rows * desc.n));
  device::CpuStream stream(pool());
  const auto call = [&](int64_t copy) {
    impl.run(desc, {x.data(), w.bytes.data() + copy * w.copy_bytes, nullptr, y.data(), rows, desc.k,
                    desc.n, &stream});
  };
  call(0);
  const double read = read_roof_gbps(pool());
  const double dot = dot_roof_gflops(pool());
  int64_t copy = 0;
  const Stopwatch watch(pool());
  for (auto _ : state) call(copy++ % w.copies);
  const double seconds = watch.seconds() / static_cast<double>(state.iterations());
  const double gbps = static_cast<double>(w.copy_bytes) / seconds / 1e9;
  const double gflops = 2.0 * static_cast<double>(rows * desc.n * desc.k) / seconds / 1e9;
  state.counters["GB/s"] = gbps;
  state.counters["of_read"] = gbps / std::max(read, read_roof_gbps(pool(), 2));
  state.counters["GFLOP/s"] = gflops;
  state.counters["of_dot"] = gflops / std::max(dot, dot_roof_gflops(pool(), 2));
  state.counters["read_roof"] = read;
  state.counters["dot_roof"] = dot;
}

// Every implementation that computes it here, those for int8 inputs when they are asked for.
void register_all() {
  for (const auto& impl : LinearFamily::table()) {
    for (const Shape& shape : kShapes) {
      for (const QuantFormat& format : kFormats) {
        for (const int64_t rows : {1, 2, 8, 16, 512}) {
          if (rows == 512 && shape.n == 49152) continue;  // a prompt needs its last logits only
          LinearDesc desc;
          desc.n = shape.n;
          desc.k = shape.k;
          desc.storage = format.storage;
          desc.group = format.group;
          desc.scale = format.scale;
          desc.has_min = format.has_min;
          if (std::string(impl.numerics).rfind("i8.", 0) == 0) {
            desc.activations = Activations::kInt8;
          }
          if (!impl.supports(desc).supported) continue;
          const std::string name = std::string(impl.name) + "/" + to_string(format) + "/" +
                                   std::to_string(shape.n) + "x" + std::to_string(shape.k) + "/M" +
                                   std::to_string(rows);
          benchmark::RegisterBenchmark(
              name.c_str(),
              [&impl, desc, rows](benchmark::State& s) { run_linear(s, desc, rows, impl); })
              ->Unit(benchmark::kMicrosecond)
              ->UseRealTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) {
  kvern::bench::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
