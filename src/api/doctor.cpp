#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "base/host_memory.h"
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "kvern/engine.h"

namespace kvern {
namespace {

constexpr size_t kRoofBytes = size_t{512} << 20;
constexpr int kRoofPasses = 6;

// Sums 64-byte lines; the compiler cannot drop loads whose sum is used.
uint64_t sum_lines(const uint64_t* data, size_t count) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += data[i + lane];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

std::string field_of(const char* path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

bool huge_pages_enabled() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(in, line);
  return line.find("[never]") == std::string::npos && !line.empty();
}

std::string instruction_sets() {
  const device::CpuFeatures& f = device::cpu_features();
  std::string out;
  const auto add = [&](bool has, const char* name) {
    if (!has) return;
    if (!out.empty()) out += ' ';
    out += name;
  };
  add(f.avx2_fma, "avx2");
  add(f.avx512, "avx512");
  add(f.avx512_bf16, "avx512-bf16");
  add(f.avx512_vnni, "avx512-vnni");
  add(f.avx512_vbmi, "avx512-vbmi");
  return out.empty() ? "none that Kvern uses" : out;
}

std::vector<std::string> advise(const DoctorReport& report) {
  std::vector<std::string> out;
  if (!device::cpu_features().avx512_bf16) {
    out.push_back(
        "this processor has no AVX-512 BF16: matrices run on the plain kernels, several "
        "times slower");
  }
  if (!report.huge_pages) {
    out.push_back(
        "transparent huge pages are off: /sys/kernel/mm/transparent_hugepage/enabled set "
        "to madvise makes large weights cheaper to read");
  }
  return out;
}

}  // namespace

double measure_read_bandwidth(int32_t num_threads) {
  const int threads = num_threads > 0 ? num_threads : device::num_usable_cores();
  ThreadPool pool(threads);
  const device::Buffer buffer = device::allocate_host(kRoofBytes);
  auto* data = reinterpret_cast<uint64_t*>(buffer.data());
  constexpr int64_t kTasks = 64;
  constexpr size_t kTaskWords = kRoofBytes / sizeof(uint64_t) / kTasks;
  pool.parallel_for(kTasks, [&](int64_t task, int) {
    std::fill_n(data + static_cast<size_t>(task) * kTaskWords, kTaskWords,
                static_cast<uint64_t>(task));
  });
  double best = 0;
  std::vector<uint64_t> sums(kTasks);
  for (int pass = 0; pass < kRoofPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(kTasks, [&](int64_t task, int) {
      const auto t = static_cast<size_t>(task);
      sums[t] += sum_lines(data + t * kTaskWords, kTaskWords);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(kRoofBytes) / seconds.count() / 1e9);
  }
  // Reading the sums keeps the loop above from being dropped.
  volatile uint64_t sink = sums[0];
  static_cast<void>(sink);
  return best;
}

uint64_t memory_within_reach_bytes() {
  return static_cast<uint64_t>(free_memory_bytes());
}

DoctorReport doctor() {
  DoctorReport report;
  report.version = KVERN_VERSION;
  report.cpu = field_of("/proc/cpuinfo", "model name");
  report.instruction_sets = instruction_sets();
  report.cores = device::num_usable_cores();
  struct sysinfo info {};
  if (sysinfo(&info) == 0) report.memory_bytes = uint64_t{info.totalram} * info.mem_unit;
  report.free_memory_bytes = memory_within_reach_bytes();
  report.huge_pages = huge_pages_enabled();
  if (report.free_memory_bytes > 2 * kRoofBytes) {
    report.read_bandwidth_gb_per_second = measure_read_bandwidth(report.cores);
  }
  report.advice = advise(report);
  return report;
}

}  // namespace kvern
