// The options of `run` and `chat` that say which plan is loaded and how.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "apps/cli/build_options.h"
#include "kvern/engine.h"

namespace kvern::cli {

struct EngineFlags {
  std::string model;  // a plan, or a model that is built into the cache
  BuildFlags build;
  int threads = 0;
  int64_t kv_capacity_tokens = 0;
  int32_t prefill_chunk = 0;
  bool verify = false;
  bool plain = false;
  bool no_prefix_cache = false;
  bool quiet = false;
  std::string weights_memory = "map";

  EngineOptions to_options() const;
};

void add_engine_flags(CLI::App& app, const std::shared_ptr<EngineFlags>& flags);

}  // namespace kvern::cli
