#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/build.h"
#include "kvern/engine.h"
#include "kvern/plan.h"

namespace kvern::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string plan;
  int32_t prompt_tokens = 512;
  int32_t new_tokens = 128;
  std::vector<int32_t> depths = {32};
  std::vector<int32_t> batches = {1};
  int32_t repetitions = 5;
  int32_t threads = 0;
  bool no_kv_cache = false;
  bool prompt_given = false, new_given = false, depths_given = false;
  std::string output = "md";
};

struct Row {
  std::string test;
  int32_t sequences = 1;
  int32_t depth = 0;            // tokens of context before the first counted one
  std::vector<double> rates;    // tokens/s of each repetition
  double bytes_per_second = 0;  // read by decoding, at the median rate; 0 for prefill
  double median() const {
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double min() const { return *std::min_element(rates.begin(), rates.end()); }
  double max() const { return *std::max_element(rates.begin(), rates.end()); }
};

// Fresh for every call, so that no cache of earlier prompts can help.
std::vector<int32_t> random_prompt(int32_t count, int64_t vocabulary) {
  static std::mt19937 random(1);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
  return ids;
}

using Times = std::vector<Clock::time_point>;  // of the tokens of one answer

// The times of `count` tokens. Throws when the sequence ends with fewer.
Times consume(ExecutionContext& context, int32_t count) {
  Times times;
  Event event;
  while (context.next(event)) {
    if (event.kind == Event::Kind::kToken) times.push_back(Clock::now());
    if (event.kind == Event::Kind::kFinished && event.reason != FinishReason::kLength) {
      throw Error(Code::kInternal, fmt::format("bench: a sequence ended early: {} {}",
                                               name_of(event.reason), event.message));
    }
  }
  if (times.size() != static_cast<size_t>(count)) {
    throw Error(Code::kInternal,
                fmt::format("bench: {} tokens came, {} were asked for", times.size(), count));
  }
  return times;
}

Request request_of(int32_t prompt_tokens, int32_t new_tokens, int64_t vocabulary,
                   bool no_kv_cache = false) {
  Request request;
  request.prompt_ids = random_prompt(prompt_tokens, vocabulary);
  request.max_new_tokens = new_tokens;
  request.ignore_eos = true;
  request.recompute_context = no_kv_cache;
  request.use_prefix_cache = false;  // every prompt is computed
  return request;
}

double prefill_rate(Engine& engine, int32_t tokens, int64_t vocabulary) {
  ExecutionContext context = engine.submit(request_of(tokens, 1, vocabulary));
  consume(context, 1);
  return tokens / context.timings().ttft_ms() * 1000;
}

// Tokens per second of all sequences together, over the time in which all of them decode: from the
// last one's first token until the first one's last. A toy model may end one answer before the next
// begins; the whole time counts then.
double common_rate(const std::vector<Times>& all) {
  Clock::time_point begin = all[0].front();
  Clock::time_point end = all[0].back();
  Clock::time_point earliest = begin;
  Clock::time_point latest = end;
  for (const Times& times : all) {
    begin = std::max(begin, times.front());
    end = std::min(end, times.back());
    earliest = std::min(earliest, times.front());
    latest = std::max(latest, times.back());
  }
  if (begin >= end) {
    begin = earliest;
    end = latest;
  }
  int64_t tokens = 0;
  for (const Times& times : all) {
    tokens += std::count_if(times.begin(), times.end(),
                            [&](Clock::time_point at) { return at > begin && at <= end; });
  }
  const std::chrono::duration<double> seconds = end - begin;
  return static_cast<double>(tokens) / std::max(seconds.count(), 1e-9);
}

double decode_rate(Engine& engine, const Flags& flags, int32_t sequences, int32_t depth,
                   int64_t vocabulary) {
  std::vector<ExecutionContext> contexts;
  for (int32_t i = 0; i < sequences; ++i) {
    contexts.push_back(
        engine.submit(request_of(depth, flags.new_tokens + 1, vocabulary, flags.no_kv_cache)));
  }
  std::vector<std::future<Times>> consumers;
  for (ExecutionContext& context : contexts) {
    consumers.push_back(
        std::async(std::launch::async, [&] { return consume(context, flags.new_tokens + 1); }));
  }
  std::vector<Times> all;
  for (std::future<Times>& consumer : consumers) all.push_back(consumer.get());
  return common_rate(all);
}

template <class Measure>
Row measure(const std::string& test, int32_t sequences, int32_t repetitions, const Measure& once) {
  Row row;
  row.test = test;
  row.sequences = sequences;
  once();  // warms caches and page tables; not counted
  for (int32_t i = 0; i < repetitions; ++i) {
    if (interrupted()) throw Interrupted{};
    row.rates.push_back(once());
  }
  return row;
}

Row measure_decode(Engine& engine, const Flags& flags, const PlanSummary& plan, int32_t depth,
                   int32_t batch) {
  std::string name = fmt::format("tg{}", flags.new_tokens);
  if (batch > 1) name += fmt::format(" b{}", batch);
  if (flags.depths.size() > 1) name += fmt::format(" d{}", depth);
  Row row = measure(name, batch, flags.repetitions,
                    [&] { return decode_rate(engine, flags, batch, depth, plan.vocabulary_size); });
  row.depth = depth;
  // Without the cache a step computes the whole context: the bandwidth says nothing then.
  if (flags.no_kv_cache) return row;
  // A step reads every weight once and each sequence's K and V, half the new tokens deep on
  // average.
  const double context = depth + flags.new_tokens / 2.0;
  const double bytes_per_step = static_cast<double>(plan.decode_weight_bytes) +
                                batch * context * static_cast<double>(plan.kv_bytes_per_token);
  row.bytes_per_second = row.median() / batch * bytes_per_step;
  return row;
}

std::vector<Row> measure_all(Engine& engine, const Flags& flags, const PlanSummary& plan) {
  std::vector<Row> rows;
  if (flags.prompt_tokens > 0) {
    rows.push_back(measure(fmt::format("pp{}", flags.prompt_tokens), 1, flags.repetitions, [&] {
      return prefill_rate(engine, flags.prompt_tokens, plan.vocabulary_size);
    }));
  }
  if (flags.new_tokens == 0) return rows;
  for (const int32_t depth : flags.depths) {
    for (const int32_t batch : flags.batches) {
      rows.push_back(measure_decode(engine, flags, plan, depth, batch));
    }
  }
  return rows;
}

void print_table(const std::vector<Row>& rows, double roof, const PlanSummary& plan) {
  std::string out = fmt::format(
      "{} ({}, KV {}), read bandwidth {:.1f} GB/s\n\n"
      "| test | tokens/s | min | max | ms/token | GB/s | share of bandwidth |\n"
      "|---|--:|--:|--:|--:|--:|--:|\n",
      plan.model, plan.weights, plan.kv_format, roof);
  for (const Row& row : rows) {
    const double rate = row.bytes_per_second / 1e9;
    out += fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:.2f} | ", row.test, row.median(),
                       row.min(), row.max(), 1000 / row.median());
    out += rate > 0 ? fmt::format("{:.1f} | {:.0f} % |\n", rate, 100 * rate / roof) : "| |\n";
  }
  print(out);
}

void print_json(const std::vector<Row>& rows, double roof, const Flags& flags,
                const PlanSummary& plan) {
  nlohmann::ordered_json json{
      {"model", plan.model},
      {"weights", plan.weights},
      {"kv", plan.kv_format},
      {"threads", flags.threads > 0 ? flags.threads
                                    : static_cast<int32_t>(std::thread::hardware_concurrency())},
      {"kv_cache", !flags.no_kv_cache},
      {"read_bandwidth_gb_per_second", roof},
      {"results", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    nlohmann::ordered_json result{{"test", row.test},    {"sequences", row.sequences},
                                  {"depth", row.depth},  {"tokens_per_second", row.median()},
                                  {"min", row.min()},    {"max", row.max()},
                                  {"samples", row.rates}};
    if (row.bytes_per_second > 0) {
      result["gb_per_second"] = row.bytes_per_second / 1e9;
      result["share_of_read_bandwidth"] = row.bytes_per_second / 1e9 / roof;
    }
    json["results"].push_back(std::move(result));
  }
  print(json.dump(1) + "\n");
}

void check_lengths(const Flags& flags, const PlanSummary& plan) {
  const int32_t deepest = *std::max_element(flags.depths.begin(), flags.depths.end());
  const int64_t longest =
      std::max<int64_t>(flags.prompt_tokens + 1, deepest + flags.new_tokens + 1);
  if (longest <= plan.max_context_length) return;
  throw Error(
      Code::kInvalidArgument,
      fmt::format("{} tokens of context are asked for and the plan holds {}: give a smaller "
                  "-p, -n or -d",
                  longest, plan.max_context_length));
}

void check_is_plan(const std::string& path) {
  std::error_code ignored;
  if (is_plan(path) || !std::filesystem::exists(path, ignored)) return;
  throw Error(
      Code::kInvalidPlan,
      fmt::format("'{}' is no plan, and a plan is measured: `kvern build {} -o model.plan`, "
                  "then `kvern bench model.plan`",
                  path, path));
}

// What nobody asked for is cut to what a plan of a short context takes.
void fit_defaults(const PlanSummary& plan, Flags& flags) {
  const int64_t room = plan.max_context_length - 1;
  const auto cut = [](int32_t value, int64_t most) {
    return static_cast<int32_t>(std::min<int64_t>(value, std::max<int64_t>(most, 1)));
  };
  if (!flags.prompt_given) flags.prompt_tokens = cut(flags.prompt_tokens, room);
  int32_t& depth = *std::max_element(flags.depths.begin(), flags.depths.end());
  if (!flags.depths_given) depth = cut(depth, room / 2);
  if (!flags.new_given) flags.new_tokens = cut(flags.new_tokens, room - depth);
}

int bench(Flags flags) {
  check_is_plan(flags.plan);
  const PlanSummary plan = Plan::open(flags.plan).summary();
  fit_defaults(plan, flags);
  check_lengths(flags, plan);
  const double roof = measure_read_bandwidth(flags.threads);
  EngineOptions options;
  options.num_threads = flags.threads;
  options.max_sequences = *std::max_element(flags.batches.begin(), flags.batches.end());
  Engine engine = Engine::load(flags.plan, options);
  const std::vector<Row> rows = measure_all(engine, flags, plan);
  if (flags.output == "json")
    print_json(rows, roof, flags, plan);
  else
    print_table(rows, roof, plan);
  return kOk;
}

}  // namespace

std::function<int()> setup_bench(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PLAN", flags->plan, "Plan file")->required();
  app.add_option("-p,--prompt-tokens", flags->prompt_tokens, "Tokens of the prefill test; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("-n,--new-tokens", flags->new_tokens, "Tokens of the decode tests; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("-d,--depths", flags->depths, "Tokens of context before decoding: 64,2000")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("-b,--batches", flags->batches, "Sequences that decode together: 1,8")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("-r,--repetitions", flags->repetitions, "Counted runs of each test")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--no-kv-cache", flags->no_kv_cache,
               "Decode by computing the whole context for every token (for comparison)");
  app.add_option("--threads", flags->threads, "Compute threads; default: one per core")
      ->check(CLI::Range(1, 1024));
  app.add_option("-o,--output", flags->output, "md or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"md", "json"}));
  return [flags, &app] {
    flags->prompt_given = app.get_option("-p")->count() > 0;
    flags->new_given = app.get_option("-n")->count() > 0;
    flags->depths_given = app.get_option("-d")->count() > 0;
    return bench(*flags);
  };
}

}  // namespace kvern::cli
