// Small types that the public headers share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kvern {

// How a plan stores its matrices. kKeep keeps the source's own numbers, exactly.
enum class WeightFormat { kKeep, kF32, kF16, kBf16, kInt8, kInt4 };

// How K and V are stored in pages. kInt8: groups of 32 along the head, one f16 scale each.
enum class KvCacheFormat { kF32, kF16, kBf16, kInt8 };

// Where a loaded plan's weights live. kMap: the file itself, shared with other processes; the file
// must not shrink meanwhile (the process would get SIGBUS). kCopy: memory of its own, in huge pages
// where the system grants them.
enum class WeightsMemory { kMap, kCopy };

// Why an answer ended. kStop: a stop id or string; kLength: max_new_tokens or the context length.
enum class FinishReason { kNone, kStop, kLength, kCancelled, kKvExhausted, kFailed };

// "keep", "f32", …; "bf16", …; "stop", "length", "cancelled", "kv_exhausted", "failed".
std::string_view name_of(WeightFormat format);
std::string_view name_of(KvCacheFormat format);
std::string_view name_of(FinishReason reason);
// Throw Error(kInvalidArgument) that lists the names there are.
WeightFormat weight_format_from_name(std::string_view name);
KvCacheFormat kv_cache_format_from_name(std::string_view name);

// Work that takes long says how far it is: a phase ("reading", "weights", "checking") and its
// bytes.
struct Progress {
  std::string_view phase;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};
// Called in the thread that does the work. An exception thrown by it ends that work.
using ProgressFn = std::function<void(const Progress&)>;

}  // namespace kvern
