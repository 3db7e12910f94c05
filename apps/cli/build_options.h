// The options that `build` and `run MODEL` share.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "kvern/build.h"

namespace kvern::cli {

struct BuildFlags {
  std::string weights = "keep";
  std::string kv = "bf16";
  int64_t max_context_length = 0;
  int32_t max_sequences = 16;
  std::string activations = "default";
  uint64_t seed = 0;
  // Of ONNX files.
  bool no_verify = false;
  std::vector<std::string> states;  // "past=present"
  std::vector<std::string> inputs;  // "NAME=past"
  std::string dynamic_quant;
  std::string given;  // the last one on the command line: they mean nothing for a plan

  BuildOptions to_options() const;
};

void add_build_flags(CLI::App& app, const std::shared_ptr<BuildFlags>& flags);

// The plan of a model, from the cache where the same content was built with the same options
// before. The folder: $KVERN_CACHE, else $XDG_CACHE_HOME/kvern, else ~/.cache/kvern.
struct CacheUse {
  bool quiet = false;
  bool verify = false;  // a cached plan with a damaged byte is built again, not served
};
// A plan is taken as it is. Throws Error(kInvalidArgument) when options of a build are given too.
std::string plan_for(const std::string& model_or_plan, const BuildFlags& flags, CacheUse use);

}  // namespace kvern::cli
