#include "compile/output_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kvern/error.h"
#include "plan/format.h"

namespace kvern::compile {
namespace {

namespace fs = std::filesystem;

const char* name_of(OutputKind kind) {
  switch (kind) {
    case OutputKind::kPlan:
      return "plan";
    case OutputKind::kReport:
      return "report";
    case OutputKind::kArrays:
      return "file of outputs";
  }
  return "";
}

bool begins_with(const fs::path& path, std::string_view wanted) {
  std::string begin(wanted.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return in.good() && begin == wanted;
}

// Written by an earlier run, as far as the file shows.
bool is_ours(const fs::path& path, OutputKind kind) {
  switch (kind) {
    case OutputKind::kPlan:
      return path.extension() == ".plan" || begins_with(path, {plan::kMagic, sizeof(plan::kMagic)});
    case OutputKind::kReport:
      return begins_with(path, "{\n \"status\": ") || begins_with(path, "{\n \"model\": ");
    case OutputKind::kArrays:
      return path.extension() == ".npz";
  }
  return false;
}

// Empty where a model is a file of its own.
fs::path folder_of_model(const fs::path& model) {
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) return model;
  if (model.extension() != ".onnx") return {};
  return model.has_parent_path() ? model.parent_path() : fs::path(".");
}

// Renaming onto a device node or a folder would destroy it.
void check_place(const fs::path& target, OutputKind kind) {
  std::error_code ignored;
  const fs::path folder = target.parent_path();
  if (target.filename().empty() || fs::is_directory(target, ignored)) {
    throw Error(Code::kInvalidArgument,
                fmt::format("cannot write the {} '{}': that is a folder; name a file in it",
                            name_of(kind), target.string()));
  }
  if (!folder.empty() && !fs::is_directory(folder, ignored)) {
    throw Error(Code::kInvalidArgument,
                fmt::format("cannot write the {} '{}': there is no folder '{}'", name_of(kind),
                            target.string(), folder.string()));
  }
  // Found out now rather than after minutes of work.
  const fs::path beside = folder.empty() ? fs::path(".") : folder;
  if (::access(beside.c_str(), W_OK | X_OK) != 0) {
    throw Error(Code::kInvalidArgument,
                fmt::format("cannot write the {} '{}': in the folder '{}' no file can be made: {}",
                            name_of(kind), target.string(), beside.string(), std::strerror(errno)));
  }
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    throw Error(Code::kInvalidArgument,
                fmt::format("cannot write the {} '{}': that is not a regular file; name a file to "
                            "write",
                            name_of(kind), target.string()));
  }
}

// Under any name, and before there is one.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  const auto place = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  return place(a) == place(b) || fs::equivalent(a, b, ignored);
}

}  // namespace

void check_output(const std::string& path, OutputKind kind, const std::string& model_path,
                  std::span<const std::string> sources, const std::string& plan_path) {
  const fs::path target(path);
  check_place(target, kind);
  std::error_code ignored;
  if (kind == OutputKind::kReport && same_file(target, plan_path)) {
    throw Error(
        Code::kInvalidArgument,
        fmt::format("the report would overwrite the plan '{}'; give another name", plan_path));
  }
  const auto refuse = [&](const fs::path& source) {
    throw Error(Code::kInvalidArgument,
                fmt::format("the {} would overwrite '{}', which is the model '{}' or is read with "
                            "it; give another name",
                            name_of(kind), source.string(), model_path));
  };
  if (fs::equivalent(target, model_path, ignored)) refuse(model_path);
  for (const std::string& source : sources) {
    if (same_file(target, source)) refuse(source);
  }
  const fs::path folder = folder_of_model(model_path);
  const fs::path beside = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!folder.empty() && fs::exists(target, ignored) && fs::equivalent(folder, beside, ignored) &&
      !is_ours(target, kind)) {
    refuse(target);
  }
}

}  // namespace kvern::compile
