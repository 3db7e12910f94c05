#include "apps/cli/build_options.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "kvern/plan.h"

namespace kvern::cli {
namespace {

namespace fs = std::filesystem;

// Empty counts as unset, as the XDG specification has it.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path cache_folder() {
  if (const std::string folder = environment("KVERN_CACHE"); !folder.empty()) return folder;
  if (const std::string folder = environment("XDG_CACHE_HOME"); !folder.empty()) {
    return fs::path(folder) / "kvern";
  }
  if (const std::string home = environment("HOME"); !home.empty()) {
    return fs::path(home) / ".cache" / "kvern";
  }
  throw Error(Code::kInvalidArgument,
              "no folder to keep the built plan in: set KVERN_CACHE, or use `kvern build` and run "
              "the plan");
}

std::string stamp_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{}|{}|{}.{:09}", path.string(), info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

// A file, or every file of a folder: one that is rewritten in place leaves its folder untouched.
// Empty when the model cannot be read.
std::string stamps_of(const std::string& model_path) {
  const bool synthetic = model_path.starts_with(kSyntheticPrefix);
  const fs::path path =
      fs::absolute(synthetic ? model_path.substr(kSyntheticPrefix.size()) : model_path);
  std::error_code error;
  if (!fs::is_directory(path, error)) return stamp_of(path);
  std::vector<std::string> stamps;
  for (fs::recursive_directory_iterator it(path, error), end; it != end && !error;
       it.increment(error)) {
    if (it.depth() >= 2) it.disable_recursion_pending();
    if (!fs::is_directory(it->path(), error)) stamps.push_back(stamp_of(it->path()));
    if (stamps.size() > 10000) return {};  // no model: it is read to know
  }
  std::sort(stamps.begin(), stamps.end());
  return error ? std::string() : fmt::format("{}", fmt::join(stamps, ";"));
}

// A model that was not touched need not be read again to know its key: the note remembers the key
// by its files' paths, sizes and times of change.
fs::path note_path(const fs::path& folder, const std::string& model_path, const BuildFlags& flags) {
  const std::string stamps = stamps_of(model_path);
  if (stamps.empty()) return {};
  const std::string identity =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", stamps, model_path, flags.weights,
                  flags.kv, flags.max_context_length, flags.max_sequences, flags.activations,
                  flags.seed, flags.no_verify, fmt::join(flags.states, ","),
                  fmt::join(flags.inputs, ","), flags.dynamic_quant, KVERN_VERSION);
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

bool usable(const fs::path& plan, bool verify) {
  if (!is_plan(plan.string())) return false;
  try {
    Plan::open(plan.string());
    if (verify) verify_plan(plan.string(), progress_quietly);
    return true;
  } catch (const Error&) {
    return false;  // of another version, or damaged: built again
  }
}

// A build that was killed leaves its temporary file, KEY.plan.xxxxxx. None lives for a day.
void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const bool temporary = entry.path().stem().extension() == ".plan";
    if (temporary && entry.last_write_time(ignored) < yesterday) fs::remove(entry, ignored);
  }
}

std::string cached_plan(const std::string& model_path, const BuildFlags& flags, CacheUse use) {
  const InterruptAction stop([] {});  // the progress callbacks see it and unwind
  BuildOptions options = flags.to_options();
  options.progress = use.quiet ? ProgressFn(progress_quietly) : progress_line("kvern: building");
  const Builder builder(options);
  const fs::path folder = cache_folder();
  const fs::path note = note_path(folder, model_path, flags);
  std::string key = note.empty() ? "" : read_note(note);
  if (key.empty()) {
    if (!use.quiet) options.progress = progress_line("kvern: looking for a built plan");
    key = Builder(options).key(model_path);
  }
  const fs::path plan = folder / (key + ".plan");
  if (!usable(plan, use.verify)) {
    remove_leftovers(folder);
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

// "a=b" of every one; the last '=' counts, names may hold others.
std::map<std::string, std::string> pairs(const char* flag, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> out;
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    const bool fits = at != std::string::npos && at > 0 && at + 1 < text.size();
    if (!fits || !out.emplace(text.substr(0, at), text.substr(at + 1)).second) {
      throw Error(Code::kInvalidArgument,
                  fmt::format("{} {}: NAME=VALUE is wanted, and each name once", flag, text));
    }
  }
  return out;
}

void add_onnx_flags(CLI::App& app, const std::shared_ptr<BuildFlags>& flags) {
  const auto mark = [&](CLI::Option* option, const char* name) {
    option->group("Build of ONNX files");
    option->each([flags, name](const std::string&) { flags->given = name; });
    return option;
  };
  mark(app.add_flag("--no-verify", flags->no_verify,
                    "Do not run the file's graph and the plan's on random prompts to compare their "
                    "logits; the report says so"),
       "--no-verify");
  mark(app.add_option("--state", flags->states,
                      "PAST=PRESENT[,…]: which output returns which cache; default: by data flow"),
       "--state")
      ->delimiter(',');
  mark(app.add_option("--input", flags->inputs,
                      "NAME=ids|mask|positions|past|total|tokens|NUMBER: what an input holds "
                      "whose name and use do not say it"),
       "--input")
      ->delimiter(',');
  mark(app.add_option("--dynamic-quant", flags->dynamic_quant,
                      "per-token: what DynamicQuantizeLinear rounds is taken unrounded (--twin "
                      "measures what that changes); as written it mixes tokens, which is refused"),
       "--dynamic-quant")
      ->check(CLI::IsMember({"per-token"}));
}

}  // namespace

BuildOptions BuildFlags::to_options() const {
  BuildOptions options;
  options.weights = weight_format_from_name(weights);
  options.kv = kv_cache_format_from_name(kv);
  options.max_context_length = max_context_length;
  options.max_sequences = max_sequences;
  options.activations = activations_from_name(activations);
  options.seed = seed;
  options.verify = !no_verify;
  options.states = pairs("--state", states);
  options.inputs = pairs("--input", inputs);
  options.per_token_dynamic_quant = dynamic_quant == "per-token";
  return options;
}

void add_build_flags(CLI::App& app, const std::shared_ptr<BuildFlags>& flags) {
  const auto add = [&](const char* name, auto& value, const char* about) {
    CLI::Option* option = app.add_option(name, value, about)->group("Build");
    option->each([flags, name](const std::string&) { flags->given = name; });
    return option;
  };
  add("--weights", flags->weights,
      "Storage of the matrices: keep (the source's own, exactly), f32, f16, bf16, int8, int4")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "f32", "f16", "bf16", "int8", "int4"}));
  add("--kv", flags->kv, "Storage of K and V: f32, f16, bf16, int8, fp8 (groups of 32)")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8", "fp8"}));
  add("--activations", flags->activations,
      "Rounding of what int8 and int4 matrices multiply: default (bf16), int8 (faster prefill, "
      "less exact)")
      ->capture_default_str()
      ->check(CLI::IsMember({"default", "int8"}));
  add("--max-context-length", flags->max_context_length,
      "Tokens of prompt and answer; default: what the model was trained for")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  add("--max-sequences", flags->max_sequences, "Sequences that run together")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  add_onnx_flags(app, flags);
}

std::string plan_for(const std::string& model_or_plan, const BuildFlags& flags, CacheUse use) {
  if (!is_plan(model_or_plan)) return cached_plan(model_or_plan, flags, use);
  if (flags.given.empty()) return model_or_plan;
  throw Error(Code::kInvalidArgument,
              fmt::format("{} is decided when a plan is built; '{}' is a plan: build it again, or "
                          "give the model",
                          flags.given, model_or_plan));
}

}  // namespace kvern::cli
