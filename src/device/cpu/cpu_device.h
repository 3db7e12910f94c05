// The CPU as a device: a compute pool, scratch memory for kernels, and what the processor can do.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "device/device.h"

namespace kvern::device {

struct CpuFeatures {
  bool avx2_fma = false;  // with F16C, as every processor that has both
  bool avx512 = false;    // F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
  bool avx512_vbmi = false;
};

// What this processor and its operating system offer, less what KVERN_CPU_ISA takes away
// (plain | avx2 | avx512 | avx512-bf16; read once).
const CpuFeatures& cpu_features();

class CpuStream final : public Stream {
 public:
  explicit CpuStream(ThreadPool& pool) : pool_(pool) {}
  Kind kind() const override { return Kind::kCpu; }
  void copy(void* to, const void* from, size_t size_bytes) override;
  void fill_zero(void* to, size_t size_bytes) override;
  void synchronize() override {}

  ThreadPool& pool() { return pool_; }
  // At least `size_bytes` of 64-byte aligned memory, its content undefined, valid until the next
  // call. Kernels call it once per launch and divide what they get.
  std::byte* scratch(size_t size_bytes);

 private:
  ThreadPool& pool_;
  Buffer scratch_;
};

// num_threads counts the calling thread; 0 = one per core that the process may use.
std::unique_ptr<Device> create_cpu_device(int num_threads);
int num_usable_cores();
// 64-byte aligned, not zeroed, in huge pages where the system grants them.
Buffer allocate_host(size_t size_bytes);

}  // namespace kvern::device
