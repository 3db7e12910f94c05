#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/build.h"

namespace kvern::cli {

std::function<int()> setup_verify(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  app.add_option("PLAN", *path, "Plan file")->required();
  return [=] {
    verify_plan(*path, progress_line("kvern: verifying"));
    print(fmt::format("{}: every byte is as built\n", *path));
    return kOk;
  };
}

}  // namespace kvern::cli
