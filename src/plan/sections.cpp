#include "plan/sections.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/wire.h"
#include "plan/program_wire.h"

namespace kvern::plan {
namespace {

constexpr const char* kNames[kNumSections] = {
    "manifest",      "program", "kv_layout", "profile",      "tactics",     "text",   "generation",
    "import_report", "graph",   "recipes",   "weight_table", "weight_sums", "weights"};

std::vector<char> text_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string bytes_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void read_manifest(const std::string& text, const std::string& what, Plan& plan) {
  const Json json = parse_json(text, what, Code::kInvalidPlan, /*max_depth=*/8);
  try {
    json.at("family").get_to(plan.family);
    json.at("model").get_to(plan.model_name);
    json.at("source_hash").get_to(plan.source_hash);
    json.at("weights").get_to(plan.weight_format);
    json.at("vocabulary_size").get_to(plan.vocabulary_size);
    json.at("layers").get_to(plan.num_layers);
    json.at("hidden_size").get_to(plan.hidden_size);
    json.at("parameters").get_to(plan.num_parameters);
    json.at("device").get_to(plan.device_kind);
  } catch (const Json::exception&) {
    throw Error(Code::kInvalidPlan, what + ": a field is missing or of the wrong type");
  }
  if (plan.vocabulary_size < 1 || plan.vocabulary_size > (1 << 28)) {
    throw Error(Code::kInvalidPlan,
                fmt::format("{}: vocabulary_size {} is out of range", what, plan.vocabulary_size));
  }
}

void write_range(WireWriter& out, const Range& range) {
  out.number(range.min);
  out.number(range.opt);
  out.number(range.max);
}

Range read_range(WireReader& in, std::string_view name) {
  Range range;
  range.min = in.number<int64_t>(name);
  range.opt = in.number<int64_t>(name);
  range.max = in.number<int64_t>(name);
  if (range.min < 1 || range.opt < range.min || range.max < range.opt || range.max > (1 << 30)) {
    in.fail(name, "needs 1 <= min <= opt <= max <= 2^30");
  }
  return range;
}

void write_weight_table(WireWriter& out, const Plan& plan) {
  out.number<uint32_t>(static_cast<uint32_t>(plan.weights.size()));
  for (const Weight& weight : plan.weights) {
    out.string(weight.name);
    out.number<uint32_t>(static_cast<uint32_t>(weight.shape.size()));
    for (const int64_t dim : weight.shape) out.number(dim);
    out.object(weight.format);
    out.string(weight.packing);
    out.number(weight.offset);
    out.number(weight.size_bytes);
  }
  // Only plans with synthetic weights go on: a Kvern that does not know them refuses.
  if (!is_synthetic(plan)) return;
  out.number(plan.synthetic_seed);
  for (const Weight& weight : plan.weights) out.number<uint8_t>(weight.synthetic ? 1 : 0);
}

Weight read_weight(WireReader& in) {
  Weight weight;
  weight.name = in.string("weight name");
  const uint32_t rank = in.count(sizeof(int64_t), "weight rank");
  if (rank < 1 || rank > 2) in.fail("weight rank", fmt::format("{} dims; 1 or 2 are known", rank));
  for (uint32_t i = 0; i < rank; ++i) {
    const auto dim = in.number<int64_t>("weight dim");
    if (dim < 1 || dim > (1 << 30)) in.fail("weight dim", fmt::format("{} is out of range", dim));
    weight.shape.push_back(dim);
  }
  weight.format = in.object<QuantFormat>("weight format");
  const DType storage = weight.format.storage;
  const bool storage_known = storage == DType::kF32 || storage == DType::kF16 ||
                             storage == DType::kBf16 || weight.format.quantised();
  const bool scale_known = weight.format.scale == DType::kF16 || weight.format.scale == DType::kF32;
  if (!storage_known || !scale_known || weight.format.group < 0) {
    in.fail("weight format", fmt::format("weight '{}' has an unknown format", weight.name));
  }
  weight.packing = in.string("packing");
  weight.offset = in.number<uint64_t>("weight offset");
  weight.size_bytes = in.number<uint64_t>("weight size");
  return weight;
}

void read_weight_table(WireReader& in, Plan& plan) {
  for (uint32_t left = in.count(/*min_item_bytes=*/40, "weights"); left > 0; --left) {
    plan.weights.push_back(read_weight(in));
  }
  if (in.remaining() == 0) return;
  plan.synthetic_seed = in.number<uint64_t>("seed");
  for (Weight& weight : plan.weights) {
    const auto flag = in.number<uint8_t>("synthetic");
    if (flag > 1) in.fail("synthetic", fmt::format("{}; 0 or 1 are known", flag));
    weight.synthetic = flag == 1;
  }
  if (!is_synthetic(plan)) in.fail("synthetic", "a seed, and no weight that it is for");
}

void write_generation(WireWriter& out, const GenerationDefaults& generation) {
  out.number<uint32_t>(static_cast<uint32_t>(generation.stop_ids.size()));
  for (const int32_t id : generation.stop_ids) out.number(id);
  out.number(generation.temperature);
  out.number(generation.top_p);
  out.number(generation.top_k);
  out.number(generation.min_p);
  out.number(generation.repetition_penalty);
}

double read_within(WireReader& in, const char* name, double low, double high) {
  const auto value = in.number<double>(name);
  if (!(value >= low && value <= high)) {
    in.fail(name, fmt::format("is {}; {} to {} are possible", value, low, high));
  }
  return value;
}

void read_generation(WireReader& in, int64_t vocabulary_size, GenerationDefaults& generation) {
  generation.stop_ids.resize(in.count(sizeof(int32_t), "stop ids"));
  for (int32_t& id : generation.stop_ids) {
    id = in.number<int32_t>("stop id");
    if (id < 0 || id >= vocabulary_size) {
      in.fail("stop id", fmt::format("is {} of {} tokens", id, vocabulary_size));
    }
  }
  generation.temperature = read_within(in, "temperature", 0.0, 100.0);
  generation.top_p = read_within(in, "top_p", 0.0, 1.0);
  generation.top_k = in.number<int64_t>("top_k");
  if (generation.top_k < 0) in.fail("top_k", "is negative");
  if (in.remaining() == 0) return;  // plans of 0.1 end here
  generation.min_p = read_within(in, "min_p", 0.0, 1.0);
  generation.repetition_penalty = read_within(in, "repetition_penalty", 0.01, 100.0);
}

void read_tactics(WireReader& in, Plan& plan) {
  const uint32_t count = in.count(sizeof(uint32_t), "tactics");
  if (count != plan.program.instructions.size()) {
    in.fail("tactics",
            fmt::format("{} tactics for {} instructions", count, plan.program.instructions.size()));
  }
  for (Instruction& instruction : plan.program.instructions) {
    instruction.tactic = in.string("tactic");
  }
}

}  // namespace

const char* section_name(Section section) {
  return kNames[static_cast<uint32_t>(section) - 1];
}

std::string write_manifest(const Plan& plan) {
  Json json;
  json["kvern_plan"] = kFormatVersion;
  json["family"] = plan.family;
  json["model"] = plan.model_name;
  json["device"] = plan.device_kind;
  json["weights"] = plan.weight_format;
  json["vocabulary_size"] = plan.vocabulary_size;
  json["layers"] = plan.num_layers;
  json["hidden_size"] = plan.hidden_size;
  json["parameters"] = plan.num_parameters;
  json["source_hash"] = plan.source_hash;
  if (is_synthetic(plan)) json["synthetic_seed"] = plan.synthetic_seed;
  return dump_json(json, 2);
}

std::vector<char> write_section(Section section, const Plan& plan) {
  WireWriter out;
  switch (section) {
    case Section::kManifest:
      return text_bytes(write_manifest(plan));
    case Section::kImportReport:
      return text_bytes(plan.import_report);
    case Section::kGraph:
      return text_bytes(plan.graph_text);
    case Section::kRecipes:
      return text_bytes(plan.recipes_text);
    case Section::kProgram:
      write_program(out, plan.program);
      break;
    case Section::kKvLayout:
      write_kv_layout(out, plan.kv_layout);
      break;
    case Section::kProfile:
      write_range(out, plan.profile.sequences);
      write_range(out, plan.profile.tokens);
      write_range(out, plan.profile.context_length);
      break;
    case Section::kTactics:
      out.number<uint32_t>(static_cast<uint32_t>(plan.program.instructions.size()));
      for (const Instruction& instruction : plan.program.instructions) {
        out.string(instruction.tactic);
      }
      break;
    case Section::kText:
      text::write_text_model(out, plan.text);
      break;
    case Section::kGeneration:
      write_generation(out, plan.generation);
      break;
    case Section::kWeightTable:
      write_weight_table(out, plan);
      break;
    case Section::kWeightSums:
    case Section::kWeights:
      throw InternalError("weights are written by write_plan");
  }
  return out.bytes();
}

void read_section(Section section, std::span<const std::byte> bytes, const std::string& file,
                  Plan& plan) {
  const std::string what = fmt::format("plan '{}', section '{}'", file, section_name(section));
  WireReader in(bytes, what);
  switch (section) {
    case Section::kManifest:
      return read_manifest(bytes_text(bytes), what, plan);
    case Section::kImportReport:
      plan.import_report = bytes_text(bytes);
      return;
    case Section::kGraph:
      plan.graph_text = bytes_text(bytes);
      return;
    case Section::kRecipes:
      plan.recipes_text = bytes_text(bytes);
      return;
    case Section::kWeightSums:
    case Section::kWeights:
      return;
    case Section::kProgram:
      plan.program = read_program(in);
      break;
    case Section::kKvLayout:
      plan.kv_layout = read_kv_layout(in);
      break;
    case Section::kProfile:
      plan.profile.sequences = read_range(in, "sequences");
      plan.profile.tokens = read_range(in, "tokens");
      plan.profile.context_length = read_range(in, "context length");
      break;
    case Section::kTactics:
      read_tactics(in, plan);
      break;
    case Section::kText:
      plan.text = text::read_text_model(in);
      break;
    case Section::kGeneration:
      read_generation(in, plan.vocabulary_size, plan.generation);
      break;
    case Section::kWeightTable:
      read_weight_table(in, plan);
      break;
  }
  in.expect_end();
}

}  // namespace kvern::plan
