#include "apps/cli/build_options.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/cli/output.h"
#include "kvern/plan.h"

namespace kvern::cli {
namespace {

namespace fs = std::filesystem;

fs::path cache_folder() {
  if (const char* folder = std::getenv("KVERN_CACHE")) return folder;
  if (const char* folder = std::getenv("XDG_CACHE_HOME")) return fs::path(folder) / "kvern";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".cache" / "kvern";
  throw Error(Code::kInvalidArgument,
              "no folder to keep the built plan in: set KVERN_CACHE, or use `kvern build` and run "
              "the plan");
}

// A model that was not touched need not be read again to know its key: the note remembers the key
// by the file's path, size and time of change.
fs::path note_path(const fs::path& folder, const std::string& model_path, const BuildFlags& flags) {
  struct stat info {};
  if (::stat(model_path.c_str(), &info) != 0) return {};
  const std::string identity =
      fmt::format("{}|{}|{}.{:09}|{}|{}|{}|{}|{}", fs::absolute(model_path).string(), info.st_size,
                  info.st_mtim.tv_sec, info.st_mtim.tv_nsec, flags.weights, flags.kv,
                  flags.max_context_length, flags.max_sequences, KVERN_VERSION);
  return folder / "by-file" / fmt::format("{:016x}", std::hash<std::string>{}(identity));
}

std::string read_note(const fs::path& path) {
  std::ifstream in(path);
  std::string key;
  std::getline(in, key);
  const bool hex =
      key.size() == 16 && key.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex ? key : "";
}

void write_note(const fs::path& path, const std::string& key) {
  std::error_code ignored;  // without the note the next start is slower, nothing else
  fs::create_directories(path.parent_path(), ignored);
  std::ofstream(path) << key << '\n';
}

bool usable(const fs::path& plan) {
  if (!is_plan(plan.string())) return false;
  try {
    Plan::open(plan.string());
    return true;
  } catch (const Error&) {
    return false;  // of another version, or damaged: built again
  }
}

}  // namespace

BuildOptions BuildFlags::to_options() const {
  BuildOptions options;
  options.weights = weight_format_from_name(weights);
  options.kv = kv_cache_format_from_name(kv);
  options.max_context_length = max_context_length;
  options.max_sequences = max_sequences;
  return options;
}

void add_build_flags(CLI::App& app, const std::shared_ptr<BuildFlags>& flags) {
  app.add_option(
         "--weights", flags->weights,
         "Storage of the matrices: keep (the source's own, exactly), f32, f16, bf16, int8, int4")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "f32", "f16", "bf16", "int8", "int4"}));
  app.add_option("--kv", flags->kv, "Storage of K and V: f32, f16, bf16, int8 (groups of 32)")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}));
  app.add_option("--max-context-length", flags->max_context_length,
                 "Tokens of prompt and answer; default: what the model was trained for")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  app.add_option("--max-sequences", flags->max_sequences, "Sequences that run together")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
}

std::string cached_plan(const std::string& model_path, const BuildFlags& flags, bool quiet) {
  BuildOptions options = flags.to_options();
  options.progress = quiet ? ProgressFn(progress_quietly) : progress_line("kvern: building");
  const Builder builder(options);
  const fs::path folder = cache_folder();
  const fs::path note = note_path(folder, model_path, flags);
  std::string key = note.empty() ? "" : read_note(note);
  if (key.empty()) key = builder.key(model_path);
  const fs::path plan = folder / (key + ".plan");
  if (!usable(plan)) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      throw Error(Code::kIo, fmt::format("cannot create the cache folder '{}': {}; set KVERN_CACHE",
                                         folder.string(), error.message()));
    }
    const BuildResult result = builder.build(model_path, plan.string());
    for (const std::string& warning : result.warnings) print_error("warning: " + warning);
  }
  if (!note.empty()) write_note(note, key);
  return plan.string();
}

}  // namespace kvern::cli
