// The "onnx" part of a report, for people.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "kvern/build.h"

namespace kvern {
namespace {

constexpr size_t kShown = 8;  // of lists that may be long

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string joined(const Json& list) {
  std::string out;
  for (size_t i = 0; i < std::min(list.size(), kShown); ++i) {
    out +=
        (i == 0 ? "" : ", ") + (list[i].is_string() ? list[i].get<std::string>() : list[i].dump());
  }
  if (list.size() > kShown) out += fmt::format(" and {} more", list.size() - kShown);
  return out;
}

// What of a layer is shown; equal rows are shown once, with their layers.
std::string layer_row(const Json& layer) {
  std::string heads = text_of(layer, "heads");
  if (text_of(layer, "kv_heads") != heads) heads += "/" + text_of(layer, "kv_heads");
  std::string dims = text_of(layer, "dim_k");
  if (text_of(layer, "dim_v") != dims) dims += "/" + text_of(layer, "dim_v");
  std::string mask =
      fmt::format("{} (proved to {})", text_of(layer, "mask"), text_of(layer, "mask_proved_to"));
  if (layer.at("softcap").get<double>() > 0) mask += ", softcap " + text_of(layer, "softcap");
  std::string out = fmt::format("    attention {}, cache {}, {} heads of {}, rope {}, mask {}\n",
                                text_of(layer, "attention"), text_of(layer, "cache"), heads, dims,
                                text_of(layer, "rope"), mask);
  const std::string mlp = text_of(layer, "mlp");
  out += fmt::format("    norm {}, mlp {}, fused: {}\n", text_of(layer, "norm"),
                     mlp.empty() ? "of generic ops" : mlp,
                     layer.at("fused").empty() ? "nothing" : joined(layer.at("fused")));
  return out;
}

std::string layers(const Json& all) {
  std::string out;
  for (size_t i = 0; i < all.size();) {
    const std::string row = layer_row(all[i]);
    size_t end = i + 1;
    while (end < all.size() && layer_row(all[end]) == row) ++end;
    out +=
        end == i + 1 ? fmt::format("  layer {}\n", i) : fmt::format("  layers {}-{}\n", i, end - 1);
    out += row;
    i = end;
  }
  return out;
}

std::string states(const Json& slots) {
  size_t count = 0;
  std::string first;
  for (const Json& slot : slots) {
    for (const Json& state : slot.at("states")) {
      if (count++ < 2) {
        first += fmt::format("{}{} -> {}", first.empty() ? "" : ", ", text_of(state, "past"),
                             text_of(state, "present"));
      }
    }
  }
  if (count == 0)
    return fmt::format("  state      {} KV slots, introduced by Kvern\n", slots.size());
  return fmt::format("  state      {} inputs in {} KV slots: {}{}\n", count, slots.size(), first,
                     count > 2 ? ", …" : "");
}

std::string generic(const Json& json) {
  const double share = json.at("share_of_decode_step").get<double>();
  const Json& instructions = json.at("instructions");
  if (instructions.empty()) return "  generic    none: every op has a kernel of its own\n";
  Json names = Json::array();
  for (const Json& line : instructions) {
    names.push_back(text_of(line, "node").empty() ? line.at("value") : line.at("node"));
  }
  std::string other = "measured where it is built: --report";
  if (json.contains("measured_here")) {
    other = fmt::format("{:.1f} % estimated by bytes",
                        json.at("estimated_by_bytes").get<double>() * 100);
  }
  return fmt::format("  generic    {:.1f} % of a decode step, {} ({}): {}\n", share * 100,
                     text_of(json, "share_is"), other, joined(names));
}

// Both sides of the proof, and what it says nothing of.
std::string proof_scope(const Json& json) {
  if (!json.contains("compares")) return "";
  std::string out = fmt::format("             compared: {}\n", text_of(json, "compares"));
  for (const Json& line : json.at("not_compared")) {
    out += fmt::format("             not compared: {}\n", line.get<std::string>());
  }
  return out;
}

std::string proof(const Json& json) {
  const std::string status = text_of(json, "status");
  std::string out;
  if (status == "passed") {
    out = fmt::format(
        "  proof      passed: {} tokens of {} runs, largest difference {:.2g} ({:.1e} of "
        "the largest logit; {:.0e} allowed for {})\n",
        text_of(json, "tokens"), text_of(json, "prompts"), json.at("max_abs_diff").get<double>(),
        json.at("max_rel_diff").get<double>(), json.at("tolerance").get<double>(),
        text_of(json, "tolerance_of"));
    out += proof_scope(json);
  } else {
    out = fmt::format("  proof      {}\n", status);
  }
  if (const auto kl = json.find("kl_of_per_token_scales"); kl != json.end()) {
    out += fmt::format(
        "             no scales over tokens: KL {:.2g} on the mean and {:.2g} at most from "
        "the file as written, over {} tokens\n",
        kl->at("mean").get<double>(), kl->at("max").get<double>(), text_of(*kl, "tokens"));
  }
  const auto notes = json.find("notes");
  if (notes == json.end()) return out;
  for (const Json& note : *notes) out += fmt::format("             {}\n", note.get<std::string>());
  return out;
}

std::string table(const Json& onnx) {
  std::string opsets;
  for (const auto& [domain, version] : onnx.at("opsets").items()) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain, version.dump());
  }
  std::string out = fmt::format("onnx: {}, IR {}, opsets {}\n", text_of(onnx, "producer"),
                                text_of(onnx, "ir_version"), opsets);
  const Json& inputs = onnx.at("inputs");
  const auto named = [&](const char* key) {
    const std::string name = text_of(inputs, key);
    return name.empty() ? std::string("none") : name;
  };
  out += fmt::format("  inputs     ids {}, mask {}, positions {}; cache {}\n", named("ids"),
                     named("mask"), named("positions"), text_of(onnx, "cache"));
  out += layers(onnx.at("layers"));
  out += states(onnx.at("slots")) + generic(onnx.at("generic"));
  const Json& notes = onnx.at("notes");
  for (size_t i = 0; i < std::min(notes.size(), kShown); ++i) {
    out += fmt::format("  note       {}\n", notes[i].get<std::string>());
  }
  if (notes.size() > kShown) out += fmt::format("  note       {} more\n", notes.size() - kShown);
  return out + proof(onnx.at("proof"));
}

}  // namespace

std::string import_table(const std::string& report_json) {
  try {
    const Json report = parse_json(report_json, "report", Code::kInvalidArgument);
    const auto onnx = report.find("onnx");
    return onnx == report.end() ? "" : table(*onnx);
  } catch (const Json::exception& problem) {
    throw Error(Code::kInvalidArgument,
                fmt::format("the report's part about ONNX is damaged: {}", problem.what()));
  }
}

std::vector<std::string> report_warnings(const std::string& report_json) {
  std::vector<std::string> out;
  const Json report = parse_json(report_json, "report", Code::kInvalidArgument);
  const auto warnings = report.find("warnings");
  if (warnings == report.end() || !warnings->is_array()) return out;
  for (const Json& warning : *warnings) {
    if (warning.is_string()) out.push_back(warning.get<std::string>());
  }
  return out;
}

}  // namespace kvern
