#include "device/cpu/cpu_device.h"

#include <cpuid.h>
#include <sched.h>

#include <cstring>
#include <thread>

#include "base/check.h"

namespace kvern::device {
namespace {

// The processor's own name, 48 characters by cpuid, without the padding.
std::string brand_name() {
  unsigned words[12] = {};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* w = words + 4 * i;
    if (__get_cpuid(0x80000002u + i, w, w + 1, w + 2, w + 3) == 0) return "cpu";
  }
  char text[sizeof(words) + 1] = {};
  std::memcpy(text, words, sizeof(words));
  std::string name(text);
  while (!name.empty() && name.back() == ' ') name.pop_back();
  name.erase(0, name.find_first_not_of(' ') == std::string::npos ? 0 : name.find_first_not_of(' '));
  return name.empty() ? "cpu" : name;
}

const char* best_isa(const CpuFeatures& f) {
  if (f.avx512_bf16) return "avx512-bf16";
  if (f.avx512) return "avx512";
  return f.avx2_fma ? "avx2" : "plain";
}

// Work on a CPU stream is over when the launch returns, so an event has nothing to wait for.
class CpuEvent final : public Event {
 public:
  void record(Stream&) override {}
  void wait(Stream&) override {}
  void synchronize() override {}
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int num_threads) : pool_(num_threads) {}
  Kind kind() const override { return Kind::kCpu; }
  std::string name() const override { return brand_name() + " (" + best_isa(cpu_features()) + ")"; }
  Buffer allocate(size_t size_bytes) override { return allocate_host(size_bytes); }
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<CpuStream>(pool_); }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CpuEvent>(); }
  bool record_begin(Stream&, uint64_t) override { return false; }
  void record_end(Stream&) override {}
  bool replay(Stream&, uint64_t) override { return false; }

 private:
  ThreadPool pool_;
};

}  // namespace

void CpuStream::copy(void* to, const void* from, size_t size_bytes) {
  if (size_bytes > 0) std::memmove(to, from, size_bytes);
}

void CpuStream::fill_zero(void* to, size_t size_bytes) {
  if (size_bytes > 0) std::memset(to, 0, size_bytes);
}

std::byte* CpuStream::scratch(size_t size_bytes) {
  if (size_bytes > scratch_.size_bytes() || scratch_.data() == nullptr) {
    // Half as much again, so that a context that grows token by token does not allocate each time.
    scratch_ = Buffer();
    scratch_ = allocate_host(size_bytes + size_bytes / 2 + 4096);
  }
  return scratch_.data();
}

int num_usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned all = std::thread::hardware_concurrency();
  return all == 0 ? 1 : static_cast<int>(all);
}

std::unique_ptr<Device> create_cpu_device(int num_threads) {
  if (num_threads < 0) {
    throw Error(
        Code::kInvalidArgument,
        fmt::format("cpu: {} threads asked for; give 0 (one per core) or more", num_threads));
  }
  return std::make_unique<CpuDevice>(num_threads == 0 ? num_usable_cores() : num_threads);
}

}  // namespace kvern::device
