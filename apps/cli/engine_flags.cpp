#include "apps/cli/engine_flags.h"

#include <CLI/CLI.hpp>

namespace kvern::cli {

EngineOptions EngineFlags::to_options() const {
  EngineOptions options;
  options.num_threads = threads;
  options.verify = verify;
  options.plain_kernels = plain;
  options.kv_capacity_tokens = kv_capacity_tokens;
  options.prefill_chunk_tokens = prefill_chunk;
  options.prefix_cache = !no_prefix_cache;
  options.weights_memory = weights_memory == "copy" ? WeightsMemory::kCopy : WeightsMemory::kMap;
  return options;
}

void add_engine_flags(CLI::App& app, const std::shared_ptr<EngineFlags>& flags) {
  constexpr const char* kGroup = "Engine";
  app.add_option("PLAN|MODEL", flags->model,
                 "A plan, or a model that is built into the cache first")
      ->required();
  app.add_option("--threads", flags->threads, "Compute threads; default: one per core")
      ->check(CLI::Range(1, 1024))
      ->group(kGroup);
  app.add_option("--kv-capacity", flags->kv_capacity_tokens,
                 "Tokens that the KV pool holds, in whole pages for each sequence")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->group(kGroup);
  app.add_option("--prefill-chunk", flags->prefill_chunk, "Prompt tokens per step")
      ->check(CLI::Range(1, 65536))
      ->group(kGroup);
  app.add_option("--weights-memory", flags->weights_memory,
                 "map: the plan's file itself; copy: memory of its own, safe when the file changes")
      ->check(CLI::IsMember({"map", "copy"}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag("--no-prefix-cache", flags->no_prefix_cache,
               "Compute every prompt from its first token on")
      ->group(kGroup);
  app.add_flag("--verify", flags->verify, "Check every byte of the plan first")->group(kGroup);
  app.add_flag("--plain", flags->plain, "Plain kernels only: the slow oracle")->group(kGroup);
  app.add_flag("-q,--quiet", flags->quiet, "No progress and no closing line")->group(kGroup);
  add_build_flags(app, {flags, &flags->build});
}

}  // namespace kvern::cli
