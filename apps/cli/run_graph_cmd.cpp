#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/build.h"

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string model;
  std::string inputs;
  std::string outputs;
  std::vector<std::string> also;
  uint64_t memory_bytes = uint64_t{8} << 30;
  bool json = false;
  bool opset_info = false;
};

Json ports_json(const std::vector<GraphPort>& ports) {
  Json out = Json::array();
  for (const GraphPort& port : ports) {
    out.push_back({{"name", port.name}, {"type", port.type}, {"shape", port.shape}});
  }
  return out;
}

std::string ports_text(const char* title, const std::vector<GraphPort>& ports) {
  std::string out;
  for (const GraphPort& port : ports) {
    out += fmt::format("{} {:30} {}{}\n", title, port.name, port.type, port.shape);
  }
  return out;
}

std::string op_name(const GraphOp& op) {
  return op.domain.empty() ? op.op : op.domain + "." + op.op;
}

void print_summary(const GraphSummary& graph, bool json) {
  Json ops = Json::array();
  std::string text =
      fmt::format("{}: {}, IR version {}\n", graph.path,
                  graph.producer.empty() ? "unknown producer" : graph.producer, graph.ir_version);
  for (const std::string& opset : graph.opsets) text += fmt::format("opset  {}\n", opset);
  text += ports_text("input ", graph.inputs) + ports_text("output", graph.outputs);
  for (const GraphOp& op : graph.ops) {
    ops.push_back({{"domain", op.domain},
                   {"op", op.op},
                   {"opset", op.opset},
                   {"nodes", op.count},
                   {"supported", op.supported}});
    text += fmt::format("op     {:40} {:6} nodes{}\n", op_name(op), op.count,
                        op.supported ? "" : fmt::format(", not supported in opset {}", op.opset));
  }
  if (!json) return print(text);
  const Json out = {{"path", graph.path},
                    {"producer", graph.producer},
                    {"ir_version", graph.ir_version},
                    {"opsets", graph.opsets},
                    {"inputs", ports_json(graph.inputs)},
                    {"outputs", ports_json(graph.outputs)},
                    {"ops", ops},
                    {"warnings", graph.warnings}};
  print(out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

int run(const Flags& flags) {
  if (is_plan(flags.model)) {
    throw Error(Code::kInvalidArgument,
                fmt::format("'{}' is a plan; run-graph runs an .onnx file as it is written. `kvern "
                            "run` answers from a plan",
                            flags.model));
  }
  if (flags.opset_info) {
    const GraphSummary graph = summarize_graph(flags.model);
    print_summary(graph, flags.json);
    for (const std::string& warning : graph.warnings) print_note(warning);
    return kOk;
  }
  if (flags.outputs.empty()) {
    throw Error(Code::kInvalidArgument, "-o OUTPUTS.npz is wanted: where outputs are written");
  }
  RunGraphOptions options;
  options.max_memory_bytes = flags.memory_bytes;
  options.also = flags.also;
  const RunGraphResult result = run_graph(flags.model, flags.inputs, flags.outputs, options);
  for (const std::string& note : result.notes) print_note(note);
  if (flags.json) {
    const Json out = {{"outputs", ports_json(result.outputs)},
                      {"path", flags.outputs},
                      {"seconds", result.seconds},
                      {"notes", result.notes}};
    print(out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    print(ports_text("output", result.outputs));
    print(fmt::format("{}: {} arrays, {:.3f} s\n", flags.outputs, result.outputs.size(),
                      result.seconds));
  }
  return kOk;
}

}  // namespace

std::function<int()> setup_run_graph(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("MODEL", flags->model, "An .onnx file, or a folder with one")->required();
  app.add_option("--inputs", flags->inputs, "An .npz file with the graph's inputs by name");
  app.add_option("-o,--output", flags->outputs, "The .npz file to write");
  app.add_option("--also", flags->also, "Values to write besides the outputs, by name");
  app.add_option("--memory", flags->memory_bytes, "Most bytes of values alive at once (8G)")
      ->transform(CLI::AsSizeValue(false));
  app.add_flag("--opset-info", flags->opset_info,
               "Show opsets, inputs, outputs and ops, and run nothing");
  app.add_flag("--json", flags->json, "Print a JSON object");
  return [=] { return run(*flags); };
}

}  // namespace kvern::cli
