#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/engine.h"

namespace kvern::cli {
namespace {

int run_doctor(bool json) {
  const DoctorReport r = doctor();
  if (json) {
    const nlohmann::ordered_json out{
        {"version", r.version},
        {"cpu", r.cpu},
        {"instruction_sets", r.instruction_sets},
        {"cores", r.cores},
        {"memory_bytes", r.memory_bytes},
        {"free_memory_bytes", r.free_memory_bytes},
        {"read_bandwidth_gb_per_second", r.read_bandwidth_gb_per_second},
        {"huge_pages", r.huge_pages},
        {"gpu", "not supported yet"},
        {"advice", r.advice}};
    print(out.dump(1) + "\n");
    return kOk;
  }
  print(
      fmt::format("kvern              {}\n"
                  "processor          {}, {} cores usable\n"
                  "instruction sets   {}\n"
                  "memory             {}, {} free; transparent huge pages {}\n"
                  "read bandwidth     {:.1f} GB/s\n"
                  "GPU                not supported yet\n",
                  r.version, r.cpu, r.cores, r.instruction_sets, show_bytes(r.memory_bytes),
                  show_bytes(r.free_memory_bytes), r.huge_pages ? "on" : "off",
                  r.read_bandwidth_gb_per_second));
  for (const std::string& line : r.advice) print("advice: " + line + "\n");
  return kOk;
}

}  // namespace

std::function<int()> setup_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print as JSON");
  return [=] { return run_doctor(*json); };
}

}  // namespace kvern::cli
