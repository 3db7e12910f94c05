#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/build.h"
#include "kvern/engine.h"

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string plan;
  std::string trace;
  uint64_t memory_bytes = 0;
  int64_t sequences = 0;
  bool json = false;
};

constexpr size_t kMaxRequests = 10'000'000;
constexpr int64_t kMostSequences = 4096;  // of a build

RequestLengths parse_line(const std::string& line, size_t number, const std::string& path) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  RequestLengths out;
  try {
    out.prompt_tokens = json.at("prompt_tokens").get<int64_t>();
    out.answer_tokens = json.at("answer_tokens").get<int64_t>();
  } catch (const Json::exception&) {
    throw Error(
        Code::kInvalidRequest,
        fmt::format("{}:{}: wanted {{\"prompt_tokens\": N, \"answer_tokens\": N}}", path, number));
  }
  return out;
}

std::vector<RequestLengths> read_trace(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path);
  std::istream& in = path == "-" ? std::cin : file;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(Code::kInvalidArgument, fmt::format("the trace '{}' is a folder", path));
  }
  if (!in) throw Error(Code::kNotFound, fmt::format("cannot read the trace '{}'", path));
  std::vector<RequestLengths> out;
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (out.size() == kMaxRequests) {
      throw Error(Code::kInvalidRequest,
                  fmt::format("{}: more than {} requests; take a sample", path, kMaxRequests));
    }
    out.push_back(parse_line(line, number, path));
  }
  if (in.bad()) throw Error(Code::kIo, fmt::format("cannot read the trace '{}' to its end", path));
  return out;
}

Json to_json(const SizeProposal& p) {
  return {{"requests", p.requests},
          {"tokens",
           {{"p50", p.p50_tokens},
            {"p95", p.p95_tokens},
            {"p99", p.p99_tokens},
            {"max", p.max_tokens}}},
          {"context_length", p.context_length},
          {"plan_context_length", p.plan_context_length},
          {"requests_beyond_plan", p.beyond_plan},
          {"sequence_bytes",
           {{"mean", p.mean_sequence_bytes},
            {"p95", p.p95_sequence_bytes},
            {"max", p.max_sequence_bytes}}},
          {"sequences", p.sequences},
          {"sequences_at_p95", p.sequences_at_p95},
          {"sequences_at_max", p.sequences_at_max},
          {"kv_capacity_tokens", p.kv_capacity_tokens},
          {"bytes",
           {{"kv", p.kv_bytes},
            {"weights", p.weight_bytes},
            {"activations", p.activation_bytes},
            {"all", p.memory_bytes}}}};
}

std::string table(const SizeProposal& p) {
  std::string out;
  const auto row = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<20} {}\n", name, value);
  };
  row("requests", fmt::format("{}, of {} tokens (median), {} (95 %), {} (99 %), {} (longest)",
                              p.requests, p.p50_tokens, p.p95_tokens, p.p99_tokens, p.max_tokens));
  row("context length",
      fmt::format(
          "{} holds them all; the plan has {}{}", p.context_length, p.plan_context_length,
          p.beyond_plan > 0 ? fmt::format(", too short for {} of them", p.beyond_plan) : ""));
  row("pages of a sequence",
      fmt::format("{} on the mean over its life, {} at its end (95 %), {} (longest)",
                  show_bytes(p.mean_sequence_bytes), show_bytes(p.p95_sequence_bytes),
                  show_bytes(p.max_sequence_bytes)));
  row("together", fmt::format("{} sequences on the mean; {} if all were as long as 95 %, {} as the "
                              "longest",
                              p.sequences, p.sequences_at_p95, p.sequences_at_max));
  row("memory", fmt::format("{}: KV pages {}, weights {}, activations {}",
                            show_bytes(p.memory_bytes), show_bytes(p.kv_bytes),
                            show_bytes(p.weight_bytes), show_bytes(p.activation_bytes)));
  row("options", fmt::format("build --max-context-length {} --max-sequences {}; run --kv-capacity "
                             "{}",
                             p.context_length, std::clamp<int64_t>(p.sequences, 1, kMostSequences),
                             p.kv_capacity_tokens));
  if (p.context_length > p.plan_context_length) {
    out += "note: a build takes no context length beyond what its model was trained for\n";
  }
  if (p.sequences > kMostSequences) {
    out += fmt::format("note: one engine runs {} sequences at most\n", kMostSequences);
  }
  return out;
}

int size(const Flags& flags) {
  SizeOptions options;
  options.sequences = flags.sequences;
  options.memory_bytes =
      flags.memory_bytes > 0 ? flags.memory_bytes : memory_within_reach_bytes() / 2;
  const SizeProposal proposal = propose_size(flags.plan, read_trace(flags.trace), options);
  print(flags.json ? to_json(proposal).dump(1) + "\n" : table(proposal));
  return kOk;
}

}  // namespace

std::function<int()> setup_size(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PLAN", flags->plan, "Plan file")->required();
  app.add_option("--trace", flags->trace,
                 "Lengths of requests, a JSON object a line (-: standard input)")
      ->required();
  auto* memory = app.add_option("--memory", flags->memory_bytes,
                                "Memory for weights, KV pages and activations, as 16G; default: "
                                "half of what is free")
                     ->transform(CLI::AsSizeValue(false));
  app.add_option("--sequences", flags->sequences, "That are to run together; gives the memory")
      ->check(CLI::Range(1, 1 << 20))
      ->excludes(memory);
  app.add_flag("--json", flags->json, "Print the proposal as JSON");
  return [flags] { return size(*flags); };
}

}  // namespace kvern::cli
