#include "compile/passes/token_form/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compile/passes/token_form/feeds.h"
#include "compile/passes/token_form/find_ids.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

// Of files with a fixed one: each sequence costs symbols of every activation.
constexpr int64_t kMostBatch = 16;
// Bytes of symbols of one cache in the small worlds; a static one counts with its capacity. A layer
// has about ten times as many at once, with its keys repeated for each query head.
constexpr int64_t kMostCacheSymbols_bytes = int64_t{512} << 20;

using ir::Array;
using ir::ElementType;
using ir::TensorDim;
using ir::TensorGraph;
using ir::TensorValue;
using ir::TensorValueId;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

InputPlan::Line scalar_line(const TensorValue& value, TensorValueId id, InputPlan& plan,
                            const TokenFormOptions& options) {
  InputPlan::Line line{id, "scalar", "", {}};
  const auto declared = options.inputs.find(value.name);
  if (declared != options.inputs.end()) {
    line.meaning = declared->second;
  } else if (contains(value.name, "use_cache")) {
    line.meaning = "1";
    plan.has_branch = true;
  } else if (contains(value.name, "cumulative_length") || contains(value.name, "write_ind") ||
             contains(value.name, "past_seq") || contains(value.name, "past_length") ||
             contains(value.name, "cache_length")) {
    line.meaning = "past";
  } else if (contains(value.name, "total_seq")) {
    line.meaning = "total";
  } else if (contains(value.name, "sliding_window") && options.config.contains("sliding_window")) {
    line.meaning = std::to_string(options.config.at("sliding_window"));
  } else {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: input {} is none that Kvern knows, so that what a mask makes of "
                            "it cannot be proved; say what it holds with --input "
                            "{}=past|total|tokens|positions|NUMBER",
                            shown(value), value.name));
  }
  return line;
}

InputPlan::Line past_line(const TensorValue& value, TensorValueId id, InputPlan& plan) {
  InputPlan::Line line{id, "past", "", value.dims};
  const size_t rank = value.dims.size();
  for (size_t i = 0; i < rank; ++i) {
    if (value.dims[i].value == 0) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: the cache {} has a fixed length of 0: it was exported with an "
                              "empty past; export again with dynamic axes for the past's length",
                              shown(value)));
    }
    if (value.dims[i].value >= 0) continue;
    if (i == 0) {
      line.batch_axis = 0;
    } else if (line.length_axis < 0 && (i + 1 < rank || rank == 3)) {
      line.length_axis = static_cast<int64_t>(i);
    }
  }
  if (line.batch_axis < 0) line.batch_axis = 0;
  if (line.length_axis >= 0) {
    plan.grows = true;
  } else {
    // A static cache: the longer of the two middle dims.
    if (rank < 3) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: input {} is neither ids, mask, positions nor a cache of at "
                              "least three dims",
                              shown(value)));
    }
    line.length_axis = rank == 3 || value.dims[1].value > value.dims[2].value ? 1 : 2;
    plan.capacity = value.dims[static_cast<size_t>(line.length_axis)].value;
  }
  plan.has_past = true;
  return line;
}

InputPlan::Line line_of(const TensorGraph& graph, TensorValueId id, InputPlan& plan,
                        const TokenFormOptions& options) {
  TensorValue value = graph.values[static_cast<size_t>(id)];
  for (TensorDim& dim : value.dims) dim = resolved(dim);
  const size_t rank = value.dims.size();
  if (id == plan.ids) {
    if (rank != 2 || value.dims[1].value >= 0) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: input {} must be [batch, length] with a length that is free; "
                              "export again with dynamic axes",
                              shown(value)));
    }
    plan.batch = std::max<int64_t>(value.dims[0].value, 0);
    if (plan.batch > kMostBatch) {
      throw Error(
          Code::kUnsupported,
          fmt::format("onnx: input {} has a fixed batch of {}; export with a free batch, or one "
                      "of at most {}",
                      shown(value), plan.batch, kMostBatch));
    }
    return {id, "ids", declared_as(options, value.name), value.dims};
  }
  std::string declared = declared_as(options, value.name);
  if (declared != "positions" && declared != "mask") declared.clear();  // of one number
  if (declared == "positions" || (declared.empty() && contains(value.name, "position"))) {
    return {id, "positions", declared, value.dims};
  }
  if (declared == "mask" || (declared.empty() && contains(value.name, "mask") && rank >= 2)) {
    if (rank != 2 && rank != 4) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: the mask {} has rank {}; [batch, total length] and [batch, "
                              "heads, length, total length] are known",
                              shown(value), rank));
    }
    return {id, rank == 4 ? "mask 4d" : "mask", declared, value.dims};
  }
  if (ir::is_float(value.type) && rank >= 3) return past_line(value, id, plan);
  if (rank <= 1) return scalar_line(value, id, plan, options);
  throw Error(Code::kUnsupported,
              fmt::format("onnx: input {} is none that Kvern knows: input_ids, attention_mask, "
                          "position_ids, caches and lengths are. If it holds one of these under "
                          "another name, say so with --input {}=ids|mask|positions; a model that "
                          "reads anything else is no text decoder, or export it without that "
                          "input",
                          shown(value), value.name));
}

Value bind_past(Walk& walk, const InputPlan::Line& line, const TensorValue& value) {
  Base base;
  base.kind = Base::Kind::kPast;
  base.past_input = line.id;
  base.origin = value.name;
  base.batch_axis = line.batch_axis;
  base.length_axis = line.length_axis;
  for (const World& w : walk.worlds) {
    base.past_shapes.push_back(past_shape(walk.model.graph, line, w));
  }
  Value out;
  out.type = value.type;
  out.shapes = base.past_shapes;
  out.detail = std::make_shared<const Unread>(Unread{walk.emit.add_base(std::move(base))});
  return out;
}

Value bind_ids(Walk& walk, const TensorValue& value) {
  Base base;
  base.kind = Base::Kind::kIds;
  base.origin = value.name;
  const int32_t id = walk.emit.add_base(base);
  walk.emit.bases[static_cast<size_t>(id)].value = walk.emit.ids();
  std::vector<Shape> shapes;
  std::vector<Array> elements;
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    shapes.push_back({walk.worlds[world].batch, walk.worlds[world].tokens});
    if (world < walk.num_layout) elements.push_back(symbols_of_base(id, shapes.back()));
  }
  return view_value(value.type, std::move(shapes), std::move(elements));
}

}  // namespace

namespace {

// A number is what an int32 holds: lengths, counts, flags.
void check_declared(const std::string& name, const std::string& meaning) {
  for (const char* known : {"ids", "mask", "positions", "past", "total", "tokens"}) {
    if (meaning == known) return;
  }
  int32_t number = 0;
  const auto [end, problem] =
      std::from_chars(meaning.data(), meaning.data() + meaning.size(), number);
  if (problem == std::errc() && end == meaning.data() + meaning.size()) return;
  throw Error(Code::kInvalidArgument,
              fmt::format("--input {}={}: ids, mask, positions, past, total, tokens or a number of "
                          "32 bits is wanted",
                          name, meaning));
}

// Each declared input is one of those whose meaning cannot be found otherwise.
void check_all_declared(const ir::TensorGraph& graph, const InputPlan& plan,
                        const TokenFormOptions& options) {
  for (const auto& [name, meaning] : options.inputs) {
    const auto declares = [&](const InputPlan::Line& line) {
      return (line.role == "scalar" || line.meaning == meaning) && graph.name_of(line.id) == name;
    };
    check_declared(name, meaning);
    if (std::any_of(plan.lines.begin(), plan.lines.end(), declares)) continue;
    throw Error(
        Code::kInvalidArgument,
        fmt::format("--input {}={}: {}", name, meaning,
                    graph.find(name) == ir::kNoValue
                        ? "the graph has no such input"
                        : "what this input holds is known from its name and shape already"));
  }
}

}  // namespace

InputPlan plan_inputs(const ir::TensorModel& model, const TokenFormOptions& options) {
  InputPlan plan;
  plan.ids = find_ids(model.graph, options);
  for (const TensorValueId id : model.graph.inputs) {
    plan.lines.push_back(line_of(model.graph, id, plan, options));
  }
  check_all_declared(model.graph, plan, options);
  if (plan.grows) plan.capacity = 0;
  for (const InputPlan::Line& line : plan.lines) {
    plan.free_capacity = plan.free_capacity || (plan.grows && line.meaning == "past");
  }
  return plan;
}

namespace {

// Before anything of that size is made.
void check_cache_size(const Walk& walk, const InputPlan& plan) {
  double most = 0;
  for (const InputPlan::Line& line : plan.lines) {
    if (line.role != "past") continue;
    double bytes = 0;
    for (size_t world = 0; world < walk.num_layout; ++world) {
      double elements = sizeof(Symbol);
      for (const ir::TensorDim& dim : line.dims) {
        elements *= static_cast<double>(std::max<int64_t>(dim.value, 1));
      }
      bytes += elements * static_cast<double>(walk.worlds[world].batch);
    }
    most = std::max(most, bytes);
  }
  if (most <= static_cast<double>(kMostCacheSymbols_bytes)) return;
  throw Error(
      Code::kUnsupported,
      fmt::format("onnx: following a cache of {} positions element by element takes {:.1f} "
                  "GB; export with a smaller capacity, or with caches that grow (the plan's "
                  "context length does not depend on it)",
                  plan.capacity, most / 1e9));
}

}  // namespace

void bind_inputs(Walk& walk, const InputPlan& plan, std::vector<Value>& values) {
  check_cache_size(walk, plan);
  const TensorGraph& graph = walk.model.graph;
  for (const InputPlan::Line& line : plan.lines) {
    const TensorValue& value = graph.values[static_cast<size_t>(line.id)];
    Value& to = values[static_cast<size_t>(line.id)];
    if (line.role == "ids") {
      to = bind_ids(walk, value);
      walk.out.ids_input = value.name;
      continue;
    }
    if (line.role == "past") {
      to = bind_past(walk, line, value);
      continue;
    }
    std::vector<Array> arrays;
    for (const World& w : walk.worlds) {
      arrays.push_back(input_array(walk.model.graph, plan, line, walk.options, w));
    }
    if (line.role.starts_with("mask")) walk.out.mask_input = value.name;
    if (line.role == "mask 4d") {
      walk.out.notes.push_back(fmt::format(
          "the mask {} is made by who calls the graph; taken as causal, or as the window that its "
          "name or config.json says",
          shown(value)));
    }
    if (line.role == "positions") walk.out.positions_input = value.name;
    if (line.role == "scalar") {
      walk.out.notes.push_back(fmt::format("input {} holds {}", shown(value), line.meaning));
    }
    to = known(value.type, std::move(arrays));
  }
}

}  // namespace kvern::passes::token_form
