// Names of the public enums, and back.
#include <fmt/format.h>

#include <array>
#include <span>

#include "kvern/error.h"
#include "kvern/types.h"

namespace kvern {
namespace {

template <class E>
struct Named {
  E value;
  std::string_view name;
};

constexpr std::array kWeightFormats = {
    Named{WeightFormat::kKeep, "keep"}, Named{WeightFormat::kF32, "f32"},
    Named{WeightFormat::kF16, "f16"},   Named{WeightFormat::kBf16, "bf16"},
    Named{WeightFormat::kInt8, "int8"}, Named{WeightFormat::kInt4, "int4"}};

constexpr std::array kKvFormats = {
    Named{KvCacheFormat::kF32, "f32"}, Named{KvCacheFormat::kF16, "f16"},
    Named{KvCacheFormat::kBf16, "bf16"}, Named{KvCacheFormat::kInt8, "int8"},
    Named{KvCacheFormat::kFp8, "fp8"}};

constexpr std::array kActivations = {Named{Activations::kDefault, "default"},
                                     Named{Activations::kInt8, "int8"}};

constexpr std::array kReasons = {Named{FinishReason::kNone, ""},
                                 Named{FinishReason::kStop, "stop"},
                                 Named{FinishReason::kLength, "length"},
                                 Named{FinishReason::kCancelled, "cancelled"},
                                 Named{FinishReason::kKvExhausted, "kv_exhausted"},
                                 Named{FinishReason::kFailed, "failed"}};

template <class E, size_t N>
std::string_view find_name(const std::array<Named<E>, N>& table, E value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return "";
}

template <class E, size_t N>
E find_value(const std::array<Named<E>, N>& table, std::string_view what, std::string_view name) {
  std::string names;
  for (const auto& row : table) {
    if (row.name == name) return row.value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  throw Error(Code::kInvalidArgument,
              fmt::format("{} '{}' is not known; one of {}", what, name, names));
}

}  // namespace

std::string_view name_of(WeightFormat format) {
  return find_name(kWeightFormats, format);
}
std::string_view name_of(Activations activations) {
  return find_name(kActivations, activations);
}
std::string_view name_of(KvCacheFormat format) {
  return find_name(kKvFormats, format);
}
std::string_view name_of(FinishReason reason) {
  return find_name(kReasons, reason);
}

WeightFormat weight_format_from_name(std::string_view name) {
  return find_value(kWeightFormats, "weight format", name);
}

KvCacheFormat kv_cache_format_from_name(std::string_view name) {
  return find_value(kKvFormats, "KV format", name);
}

Activations activations_from_name(std::string_view name) {
  return find_value(kActivations, "activations", name);
}

}  // namespace kvern
