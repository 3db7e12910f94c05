// Milliseconds of all attention of a step (SmolLM2-135M: 30 layers, 9 query and 3 KV heads of 64;
// Gemma 3 270M: 18 layers, 4 and 1 of 256; 8 layers of an 8B shape: 32 and 8 of 128, and of one
// that shares nothing: 12 and 12 of 64, without and with ALiBi), GB/s of K and V and GFLOP/s of
// both products, and their shares of what plain reading and vdpbf16ps reach at the same moment on
// the same threads (KVERN_BENCH_THREADS, else every core). With one thread all figures are per CPU
// second.
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

constexpr int32_t kPageTokens = 32;

struct Model {
  const char* name;
  int64_t layers;
  int32_t heads, kv_heads, dim;
  int32_t window;  // 0: causal
  float softcap;
  bool alibi = false;
};
constexpr Model kModels[] = {{"smollm2", 30, 9, 3, 64, 0, 0},
                             {"gemma3", 18, 4, 1, 256, 0, 0},
                             {"gemma3_window", 18, 4, 1, 256, 512, 0},
                             {"softcap", 18, 8, 4, 256, 0, 50},
                             {"8b", 8, 32, 8, 128, 0, 0},
                             {"mha", 8, 12, 12, 64, 0, 0},
                             {"mha_alibi", 8, 12, 12, 64, 0, 0, true}};

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

std::vector<KvAttentionDesc> layers(const Model& model, const KvFormat& format) {
  const auto slot = kvern::testing::place_slot(model.kv_heads, model.dim, model.dim, format, format,
                                               kPageTokens, 0);
  std::vector<KvAttentionDesc> out;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    KvAttentionDesc desc;
    static_cast<kernels::KvSlotDesc&>(desc) = slot;
    desc.k_offset += layer * slot.page_bytes;
    desc.v_offset += layer * slot.page_bytes;
    desc.page_bytes = model.layers * slot.page_bytes;
    desc.heads = model.heads;
    desc.scale = 1.0f / std::sqrt(static_cast<float>(model.dim));
    desc.softcap = model.softcap;
    desc.has_alibi = model.alibi;
    desc.window = model.window;
    if (model.window > 0) desc.mask = kernels::AttentionMask::kWindow;
    out.push_back(desc);
  }
  return out;
}

// Positions that a step's tokens see in all, and the most that one sequence reads.
struct Seen {
  double pairs = 0;
  double read = 0;
};
Seen seen_of(const Model& model, const Step& step) {
  Seen seen;
  const double window = model.window > 0 ? model.window : 1e18;
  for (int32_t t = 0; t < step.tokens; ++t) {
    seen.pairs += std::min<double>(step.context + t + 1, window);
  }
  seen.read = std::min<double>(step.context + step.tokens, window + step.tokens - 1);
  seen.pairs *= step.sequences;
  seen.read *= step.sequences;
  return seen;
}

void run_attention(benchmark::State& state,
                   const kernels::Impl<KvAttentionDesc, KvAttentionArgs>& impl, const Model& model,
                   const KvFormat& format, const Step& step) {
  const std::vector<KvAttentionDesc> descs = layers(model, format);
  if (const auto verdict = impl.supports(descs[0]); !verdict.supported) {
    state.SkipWithError(verdict.reason.c_str());
    return;
  }
  const Pages pages(descs[0], step);
  const int64_t row = int64_t{model.heads} * model.dim;
  std::vector<float> q(static_cast<size_t>(pages.view().num_tokens * row));
  for (size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
  std::vector<float> y(q.size());
  const std::vector<float> slopes(static_cast<size_t>(model.heads), 0.25f);
  device::CpuStream stream(pool());
  const double read = read_roof_gbps(pool());
  const double dot = dot_roof_gflops(pool());
  const Stopwatch watch(pool());
  for (auto _ : state) {
    for (const KvAttentionDesc& desc : descs) {
      impl.run(desc, {q.data(), y.data(), row, row, &pages.view(), &stream, nullptr,
                      model.alibi ? slopes.data() : nullptr});
    }
  }
  const double seconds = watch.seconds() / static_cast<double>(state.iterations());
  const Seen seen = seen_of(model, step);
  const int64_t token_bytes =
      dtype_bytes(format.storage, model.dim) + 2 * format.groups(model.dim);  // of one head's K
  const double kv_bytes =
      2.0 * static_cast<double>(model.layers * model.kv_heads * token_bytes) * seen.read;
  const double flops = 4.0 * static_cast<double>(model.layers * row) * seen.pairs;
  state.counters["ms"] = seconds * 1e3;
  state.counters["GB/s"] = kv_bytes / seconds / 1e9;
  state.counters["of_read"] = kv_bytes / seconds / 1e9 / std::max(read, read_roof_gbps(pool(), 2));
  state.counters["GFLOP/s"] = flops / seconds / 1e9;
  if (dot > 0) {
    state.counters["of_dot"] = flops / seconds / 1e9 / std::max(dot, dot_roof_gflops(pool(), 2));
  }
}

void register_all() {
  for (const auto& impl : KvAttentionFamily::table()) {
    for (const Model& model : kModels) {
      for (const DType storage : {DType::kBf16, DType::kI8, DType::kF8E4M3, DType::kF32}) {
        for (const Step& step : kSteps) {
          const std::string name =
              fmt::format("{}/{}/{}/{}", impl.name, model.name, dtype_name(storage), step.name);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [&impl, &model, storage, &step](benchmark::State& s) {
                                         run_attention(s, impl, model, {storage, 32}, step);
                                       })
              ->Unit(benchmark::kMillisecond)
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
