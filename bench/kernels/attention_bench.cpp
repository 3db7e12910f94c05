// Milliseconds of all attention of a SmolLM2-135M step (30 layers, 9 query and 3 KV heads of 64),
// GB/s of K and V, and the share of what plain reading reaches at the same moment on the same
// threads (KVERN_BENCH_THREADS, else every core). With one thread all figures are per CPU second.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/kernels/roof.h"
#include "kernels/kv_attention.h"
#include "tests/kernels/place_slot.h"

namespace kvern::bench {
namespace {

using kernels::KvAttentionArgs;
using kernels::KvAttentionDesc;
using kernels::KvAttentionFamily;

constexpr int64_t kLayers = 30;
constexpr int32_t kHeads = 9, kKvHeads = 3, kDim = 64, kPageTokens = 32;

// Every sequence holds `context` tokens and asks for `tokens` more.
struct Step {
  const char* name;
  int32_t sequences, context, tokens;
};
constexpr Step kSteps[] = {{"decode/64", 1, 64, 1},      {"decode/2000", 1, 2000, 1},
                           {"decode/8000", 1, 8000, 1},  {"decode_b8/500", 8, 500, 1},
                           {"prefill_512/0", 1, 0, 512}, {"prefill_64/2000", 1, 2000, 64}};

ThreadPool& pool() {
  const char* threads = std::getenv("KVERN_BENCH_THREADS");
  static ThreadPool instance(threads != nullptr ? std::atoi(threads) : device::num_usable_cores());
  return instance;
}

// The pages of all sequences, with the slots of all layers in each page.
class Pages {
 public:
  Pages(const KvAttentionDesc& desc, const Step& step) {
    const int32_t pages_each = (step.context + step.tokens + kPageTokens - 1) / kPageTokens;
    num_pages_ = pages_each * step.sequences;
    bytes_ = device::allocate_host(static_cast<size_t>(num_pages_ * desc.page_bytes));
    std::memset(bytes_.data(), 0x3c, bytes_.size_bytes());  // a small number in every format
    // Neighbours in the context are not neighbours in memory: a stride coprime to the count.
    int32_t stride = 7;
    while (num_pages_ % stride == 0) stride += 2;
    for (int32_t i = 0; i < num_pages_; ++i) {
      table_.push_back(static_cast<int32_t>(int64_t{i} * stride % num_pages_));
    }
    for (int32_t s = 0; s <= step.sequences; ++s) {
      table_offset_.push_back(s * pages_each);
      token_offset_.push_back(s * step.tokens);
    }
    context_start_.assign(static_cast<size_t>(step.sequences), step.context);
    pages_ = {bytes_.data(), desc.page_bytes, kPageTokens,
              num_pages_,    table_.data(),   table_offset_.data()};
    view_ = {step.sequences * step.tokens,
             step.sequences,
             token_offset_.data(),
             context_start_.data(),
             {&pages_, 1}};
  }
  const kernels::StepView& view() const { return view_; }

 private:
  device::Buffer bytes_;
  int32_t num_pages_ = 0;
  std::vector<int32_t> table_, table_offset_, token_offset_, context_start_;
  kernels::KvPages pages_;
  kernels::StepView view_;
};

std::vector<KvAttentionDesc> layers(const KvFormat& format) {
  const auto slot =
      kvern::testing::place_slot(kKvHeads, kDim, kDim, format, format, kPageTokens, 0);
  std::vector<KvAttentionDesc> out;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    KvAttentionDesc desc;
    static_cast<kernels::KvSlotDesc&>(desc) = slot;
    desc.k_offset += layer * slot.page_bytes;
    desc.v_offset += layer * slot.page_bytes;
    desc.page_bytes = kLayers * slot.page_bytes;
    desc.heads = kHeads;
    desc.scale = 1.0f / std::sqrt(static_cast<float>(kDim));
    out.push_back(desc);
  }
  return out;
}

void run_attention(benchmark::State& state,
                   const kernels::Impl<KvAttentionDesc, KvAttentionArgs>& impl,
                   const KvFormat& format, const Step& step) {
  const std::vector<KvAttentionDesc> descs = layers(format);
  if (const auto verdict = impl.supports(descs[0]); !verdict.supported) {
    state.SkipWithError(verdict.reason.c_str());
    return;
  }
  const Pages pages(descs[0], step);
  const int64_t rows = pages.view().num_tokens;
  std::vector<float> q(static_cast<size_t>(rows * kHeads * kDim));
  for (size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
  std::vector<float> y(q.size());
  device::CpuStream stream(pool());
  const double read = read_roof_gbps(pool());
  const Stopwatch watch(pool());
  for (auto _ : state) {
    for (const KvAttentionDesc& desc : descs) {
      impl.run(desc, {q.data(), y.data(), kHeads * kDim, kHeads * kDim, &pages.view(), &stream});
    }
  }
  const double seconds = watch.seconds() / static_cast<double>(state.iterations());
  const int64_t token_bytes =
      dtype_bytes(format.storage, kDim) + 2 * format.groups(kDim);  // of one head's K
  const double kv_bytes = 2.0 * static_cast<double>(kLayers * kKvHeads * token_bytes) *
                          (step.context + step.tokens) * step.sequences;
  state.counters["ms"] = seconds * 1e3;
  state.counters["GB/s"] = kv_bytes / seconds / 1e9;
  state.counters["of_read"] = kv_bytes / seconds / 1e9 / std::max(read, read_roof_gbps(pool(), 2));
}

void register_all() {
  for (const auto& impl : KvAttentionFamily::table()) {
    for (const DType storage : {DType::kBf16, DType::kI8, DType::kF32}) {
      for (const Step& step : kSteps) {
        const std::string name = fmt::format("{}/{}/{}", impl.name, dtype_name(storage), step.name);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&impl, storage, &step](benchmark::State& s) {
                                       run_attention(s, impl, {storage, 32}, step);
                                     })
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
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
