// Small types that the public headers share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern {

// How a plan stores its matrices. kKeep keeps the source's own numbers, exactly.
enum class WeightFormat { kKeep, kF32, kF16, kBf16, kInt8, kInt4 };

// How K and V are stored in pages. kInt8 and kFp8 (e4m3): groups of 32 along the head, one f16
// scale each.
enum class KvCacheFormat { kF32, kF16, kBf16, kInt8, kFp8 };

// A model path that begins so is a config.json, or a folder with one: its shapes, with weights
// drawn from BuildOptions::seed when the plan is loaded.
inline constexpr std::string_view kSyntheticPrefix = "synthetic:";

// How the rows that matrices multiply are rounded. kDefault: bf16 (f32 for f32 and f16 weights).
// kInt8: to 8 bits in groups, for int8 and int4 weights; faster on many rows, less exact.
enum class Activations { kDefault, kInt8 };

// Where a loaded plan's weights live. kMap: the file itself, shared with other processes; the file
// must not shrink meanwhile (the process would get SIGBUS). kCopy: memory of its own, in huge pages
// where the system grants them.
enum class WeightsMemory { kMap, kCopy };

// Why an answer ended. kStop: a stop id or string; kLength: max_new_tokens or the context length.
enum class FinishReason { kNone, kStop, kLength, kCancelled, kKvExhausted, kFailed };

// "keep", "f32", …; "bf16", …; "stop", "length", "cancelled", "kv_exhausted", "failed".
std::string_view name_of(WeightFormat format);
std::string_view name_of(KvCacheFormat format);
std::string_view name_of(Activations activations);
std::string_view name_of(FinishReason reason);
// Throw Error(kInvalidArgument) that lists the names there are.
WeightFormat weight_format_from_name(std::string_view name);
KvCacheFormat kv_cache_format_from_name(std::string_view name);
Activations activations_from_name(std::string_view name);

struct LogitBias {
  int32_t id = 0;
  float bias = 0;  // added to the token's logit; -infinity forbids it
};

// How an answer's tokens are chosen. In this order: logit bias, repetition penalty (over prompt and
// answer, Keskar et al. 2019), presence and frequency penalties (over the answer), temperature,
// then top_k, min_p and top_p cut the distribution, and one token is drawn from what is left.
struct Sampling {
  double temperature = 0.0;  // 0: the likeliest token (greedy); top_k, top_p and min_p then change
                             // nothing
  int32_t top_k = 0;         // 0: all
  double top_p = 1.0;        // the likeliest tokens whose probabilities reach top_p
  double min_p = 0.0;        // of the likeliest token's probability
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  std::vector<LogitBias> logit_bias;
  // The same seed, request and plan give the same answer, whatever else runs. Absent: a random one.
  std::optional<uint64_t> seed;
};

struct TokenLogprob {
  int32_t id = -1;
  // Natural logarithm; of the model's own distribution, before bias, penalties, temperature and
  // cuts.
  float logprob = 0;
};
// One position's: the token that stands there, and the likeliest ones in descending order.
struct TokenLogprobs {
  TokenLogprob token;
  std::vector<TokenLogprob> top;
};

// Work that takes long says how far it is: a phase ("reading", "weights", "checking") and its
// bytes; "converting" counts nodes of a graph, "proving" tokens.
struct Progress {
  std::string_view phase;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};
// Called in the thread that does the work. An exception thrown by it ends that work.
using ProgressFn = std::function<void(const Progress&)>;

}  // namespace kvern
