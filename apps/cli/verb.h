// A verb of the command line: its options, and what it does. verbs.cpp lists them all.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <span>

namespace kvern::cli {

// Exit codes: what a script can tell apart.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;    // a full disk, a broken device, our bug
inline constexpr int kUsage = 2;     // the command line itself
inline constexpr int kBadInput = 3;  // a model, plan or request that cannot be served
inline constexpr int kInterrupted = 130;

struct Verb {
  const char* name;
  const char* summary;
  const char* examples;  // shown under --help
  // Adds options to `app`; what it returns runs the verb and gives the exit code.
  std::function<int()> (*setup)(CLI::App& app);
};

std::span<const Verb> all_verbs();

std::function<int()> setup_build(CLI::App& app);
std::function<int()> setup_run(CLI::App& app);
std::function<int()> setup_chat(CLI::App& app);
std::function<int()> setup_tokenize(CLI::App& app);
std::function<int()> setup_size(CLI::App& app);
std::function<int()> setup_completion(CLI::App& app);
std::function<int()> setup_inspect(CLI::App& app);
std::function<int()> setup_verify(CLI::App& app);
std::function<int()> setup_run_graph(CLI::App& app);
std::function<int()> setup_bench(CLI::App& app);
std::function<int()> setup_doctor(CLI::App& app);

}  // namespace kvern::cli
