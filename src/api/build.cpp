#include "kvern/build.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>

#include "compile/driver.h"
#include "plan/format.h"
#include "plan/reader.h"

namespace kvern {
namespace {

quantize::WeightChoice choice_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kKeep:
      return quantize::WeightChoice::kKeep;
    case WeightFormat::kF32:
      return quantize::WeightChoice::kF32;
    case WeightFormat::kF16:
      return quantize::WeightChoice::kF16;
    case WeightFormat::kBf16:
      return quantize::WeightChoice::kBf16;
    case WeightFormat::kInt8:
      return quantize::WeightChoice::kInt8;
    case WeightFormat::kInt4:
      return quantize::WeightChoice::kInt4;
  }
  throw InternalError("weight format");
}

DType storage_of(KvCacheFormat format) {
  switch (format) {
    case KvCacheFormat::kF32:
      return DType::kF32;
    case KvCacheFormat::kF16:
      return DType::kF16;
    case KvCacheFormat::kBf16:
      return DType::kBf16;
    case KvCacheFormat::kInt8:
      return DType::kI8;
    case KvCacheFormat::kFp8:
      return DType::kF8E4M3;
  }
  throw InternalError("KV format");
}

compile::BuildRequest request_of(const BuildOptions& options, const std::string& model_path,
                                 const std::string& plan_path) {
  compile::BuildRequest request;
  request.model_path = model_path;
  request.plan_path = plan_path;
  request.report_path = options.report_path;
  request.weights = choice_of(options.weights);
  request.weights_name = name_of(options.weights);
  request.kv_storage = storage_of(options.kv);
  request.activations = options.activations;
  request.page_tokens = options.page_tokens;
  request.max_context_length = options.max_context_length;
  request.max_sequences = options.max_sequences;
  request.max_tokens_per_step = options.max_tokens_per_step;
  request.seed = options.seed;
  request.progress = options.progress;
  request.refused = options.refused;
  request.accept = options.accept;
  request.vocabulary_size = options.vocabulary_size;
  request.prove = options.verify;
  request.tensor_form.states = options.states;
  request.tensor_form.inputs = options.inputs;
  request.tensor_form.per_token_dynamic_quant = options.per_token_dynamic_quant;
  return request;
}

void check_option(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return;
  throw Error(Code::kInvalidArgument,
              fmt::format("{} is {}; {} to {} are possible", name, value, min, max));
}

}  // namespace

Builder::Builder(BuildOptions options) : options_(std::move(options)) {
  check_option("max_context_length", options_.max_context_length, 0, 1 << 24);
  check_option("max_sequences", options_.max_sequences, 1, 4096);
  check_option("max_tokens_per_step", options_.max_tokens_per_step, 1, 65536);
  check_option("page_tokens", options_.page_tokens, 1, 4096);
}

BuildResult Builder::build(const std::string& model_path, const std::string& plan_path) const {
  const compile::BuildResult built = compile::build(request_of(options_, model_path, plan_path));
  return {plan_path, built.plan_bytes, built.seconds, built.report, built.warnings};
}

std::string Builder::key(const std::string& model_path) const {
  return compile::build_key(request_of(options_, model_path, ""));
}

void verify_plan(const std::string& plan_path, const ProgressFn& progress) {
  const plan::PlanFile file(plan_path);
  file.verify_weights([&](uint64_t done, uint64_t total) {
    if (progress) progress({"checking", done, total});
  });
}

bool is_plan(const std::string& path) {
  char magic[sizeof(plan::kMagic)] = {};
  std::ifstream in(path, std::ios::binary);
  in.read(magic, sizeof(magic));
  return in.good() && std::memcmp(magic, plan::kMagic, sizeof(magic)) == 0;
}

}  // namespace kvern
