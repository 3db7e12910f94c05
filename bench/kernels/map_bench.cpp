// Programs of map: nanoseconds of one row (in L1, as in a decode step) and, of many rows, GB/s of
// inputs and outputs with their share of what plain reading reaches at the same moment. The same
// activation by its own kernel stands beside it.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "bench/kernels/roof.h"
#include "kernels/elementwise.h"
#include "kernels/map.h"

namespace kvern::bench {
namespace {

using kernels::MapDesc;

constexpr int64_t kDim = 2048;

struct Program {
  const char* name;
  const char* text;  // nullptr: the kernel of silu
};
constexpr Program kPrograms[] = {
    {"affine", "x0 x1 mul x2 add"},
    {"silu", "x0 s0 sigmoid mul"},
    {"silu_kernel", nullptr},
    {"gelu_tanh", "x0 s0 s0 mul s1 mul 0.044715 mul add 0.7978846 mul tanh 1 add x0 mul 0.5 mul"},
    {"erf", "x0 0.70710678 mul erf 1 add x0 mul 0.5 mul"}};

ThreadPool& pool() {
  const char* threads = std::getenv("KVERN_BENCH_THREADS");
  static ThreadPool instance(threads != nullptr ? std::atoi(threads) : device::num_usable_cores());
  return instance;
}

std::vector<NamedField> fields_of(const Program& program) {
  if (program.text == nullptr) {
    return to_fields(kernels::ElementwiseDesc{kernels::ElementwiseOp::kSilu, kDim});
  }
  const MapCode code = encode_map(parse_map_program(program.text));
  return to_fields(MapDesc{kDim, {kDim, kDim, kDim}, {0, 1, 1}, code.code, code.constants});
}

void run_map(benchmark::State& state, const Program& program, int64_t rows) {
  const char* family = program.text == nullptr ? "elementwise" : "map";
  const auto op = kernels::find_family(family)->prepare(fields_of(program), {});
  std::vector<float> x(static_cast<size_t>(rows * kDim));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<float> y(x.size());
  std::vector<float> vector(static_cast<size_t>(kDim), 0.5f);
  device::CpuStream stream(pool());
  const auto operand = [](std::vector<float>& data, int64_t count) {
    return kernels::Operand{reinterpret_cast<std::byte*>(data.data()), count, kDim * 4};
  };
  std::vector<kernels::Operand> inputs = {operand(x, rows)};
  if (program.text != nullptr) inputs.insert(inputs.end(), 2, operand(vector, 1));
  const std::vector<kernels::Operand> outputs = {operand(y, rows)};
  const double read = read_roof_gbps(pool());
  const Stopwatch watch(pool());
  for (auto _ : state) op->run({inputs, outputs, nullptr, &stream});
  const double seconds = watch.seconds() / static_cast<double>(state.iterations());
  const double gbps = 8.0 * static_cast<double>(rows * kDim) / seconds / 1e9;
  state.counters["ns_per_row"] = seconds * 1e9 / static_cast<double>(rows);
  state.counters["GB/s"] = gbps;
  if (rows > 1) state.counters["of_read"] = gbps / std::max(read, read_roof_gbps(pool(), 2));
}

void register_all() {
  for (const Program& program : kPrograms) {
    for (const int64_t rows : {int64_t{1}, int64_t{8192}}) {
      benchmark::RegisterBenchmark(
          fmt::format("map/{}/{}", program.name, rows).c_str(),
          [&program, rows](benchmark::State& state) { run_map(state, program, rows); })
          ->UseRealTime();
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
