#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/build_options.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/plan.h"

namespace kvern::cli {
namespace {

struct Flags {
  std::string model;
  std::string plan;
  std::string report;
  std::string twin;
  int threads = 0;
  bool json = false;
  bool quiet = false;
};

// How many tensors went which way: "210 Q4_1 -> i4 g32 f16 min".
std::string count_formats(const std::string& report_json) {
  const auto report = nlohmann::json::parse(report_json);
  std::map<std::string, std::pair<int, int>> counts;
  for (const auto& weight : report.at("weights")) {
    auto& [all, rounded] =
        counts[weight.at("from").get<std::string>() + " -> " + weight.at("to").get<std::string>()];
    ++all;
    if (!weight.at("exact").get<bool>()) ++rounded;
  }
  std::string out;
  for (const auto& [formats, count] : counts) {
    out += fmt::format("  {:>5} weights {}{}\n", count.first, formats,
                       count.second > 0 ? " (rounded)" : " (exact)");
  }
  return out;
}

// The plan to compare with: it is there before the build, so that a twin that is none costs no work
// and no older plan. Made of a model where none is given, and then removed.
class Twin {
 public:
  Twin(const Flags& flags, BuildOptions options) : path_(flags.twin) {
    if (!is_plan(path_)) {
      path_ = made_ = fmt::format("{}.twin.{}", flags.plan, ::getpid());
      options.weights = WeightFormat::kKeep;
      options.report_path.clear();
      Builder(options).build(flags.twin, made_);
    }
    vocabulary_size_ = Plan::open(path_).summary().vocabulary_size;
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;
  ~Twin() {
    std::error_code ignored;
    if (!made_.empty()) std::filesystem::remove(made_, ignored);
  }

  int64_t vocabulary_size() const { return vocabulary_size_; }
  PlanDivergence compare(const std::string& plan) const { return compare_plans(path_, plan); }

 private:
  std::string path_, made_;
  int64_t vocabulary_size_ = 0;
};

int build(const Flags& flags, const BuildFlags& build_flags) {
  BuildOptions options = build_flags.to_options();
  options.report_path = flags.report;
  options.progress =
      flags.quiet || flags.json ? ProgressFn(progress_quietly) : progress_line("kvern: building");
  if (flags.json) options.refused = [](const std::string& report) { print(report + "\n"); };
  const InterruptAction stop([] {});  // the progress callback sees it and unwinds
  std::optional<Twin> beside;
  std::optional<PlanDivergence> twin;
  if (!flags.twin.empty()) {
    beside.emplace(flags, options);
    options.vocabulary_size = beside->vocabulary_size();
    options.accept = [&](const std::string& plan) { twin = beside->compare(plan); };
  }
  const BuildResult result = Builder(options).build(flags.model, flags.plan);
  for (const std::string& warning : result.warnings) print_error("warning: " + warning);
  if (flags.json) {
    nlohmann::ordered_json json;
    json["plan"] = result.plan_path;
    json["bytes"] = result.plan_bytes;
    json["seconds"] = result.seconds;
    if (twin) {
      json["twin"] = {{"positions", twin->positions},
                      {"mean_kl", twin->mean_kl},
                      {"max_kl", twin->max_kl},
                      {"top1_agreement", twin->top1_agreement}};
    }
    json["report"] = nlohmann::ordered_json::parse(result.report_json);
    print(json.dump(1) + "\n");
    return kOk;
  }
  if (flags.quiet) return kOk;
  if (const std::string table = import_table(result.report_json); !table.empty()) print_note(table);
  print(fmt::format("{}: {} in {:.1f} s\n{}", result.plan_path, show_bytes(result.plan_bytes),
                    result.seconds, count_formats(result.report_json)));
  if (twin) {
    print(fmt::format(
        "  against {}: mean KL {:.2e} nats (largest {:.2e}), same first choice {:.1f} % of "
        "{} positions\n",
        flags.twin, twin->mean_kl, twin->max_kl, 100 * twin->top1_agreement, twin->positions));
  }
  return kOk;
}

}  // namespace

std::function<int()> setup_build(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  auto build_flags = std::make_shared<BuildFlags>();
  app.add_option("MODEL", flags->model,
                 "A GGUF file, a Hugging Face folder, an ONNX file or a folder with one, or "
                 "synthetic:CONFIG.json: the shapes of that "
                 "configuration with weights drawn from --seed at load")
      ->required();
  app.add_option("-o,--output", flags->plan, "Plan file to write")->required();
  app.add_option("--report", flags->report,
                 "Write what the build found and did to this file, as JSON");
  app.add_option("--twin", flags->twin,
                 "Compare with this plan or model, the float twin of a quantised one: mean KL and "
                 "agreement over 512 random tokens");
  add_build_flags(app, build_flags);
  app.add_option("--seed", build_flags->seed, "Of synthetic weights")->capture_default_str();
  app.add_option("--threads", flags->threads,
                 "Threads of the build; one is used today, whatever is given")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", flags->json, "Print the result and the report as JSON");
  app.add_flag("-q,--quiet", flags->quiet, "Print nothing");
  return [=] { return build(*flags, *build_flags); };
}

}  // namespace kvern::cli
