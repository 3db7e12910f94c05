#include "compile/passes/token_form/feeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::passes::token_form {

using ir::Array;
using ir::ElementType;
using ir::TensorDim;
using ir::TensorGraph;
using ir::TensorValue;
using ir::TensorValueId;

TensorDim resolved(const TensorDim& dim) {
  if (dim.value >= 0 || dim.name.empty() || dim.name.size() > 9) return dim;
  const bool digits = std::all_of(dim.name.begin(), dim.name.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!digits) return dim;
  return {std::stoll(dim.name), dim.name};
}

std::string shown(const TensorValue& value) {
  std::string dims;
  for (const TensorDim& dim : value.dims) {
    if (!dims.empty()) dims += ", ";
    dims += dim.value >= 0 ? std::to_string(dim.value) : dim.name.empty() ? "?" : dim.name;
  }
  return fmt::format("'{}' ({} [{}])", value.name, ir::element_type_name(value.type), dims);
}

namespace {

// Numbers number(0), number(1), … as elements of an input's type.
template <class Number>
Array filled(ElementType type, Shape shape, const Number& number) {
  Array out(type, std::move(shape));
  const auto fill = [&]<class T>(std::span<T> to, auto convert) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(convert(number(i)));
  };
  const auto same = [](auto v) { return v; };
  const auto narrow = [](auto v) { return static_cast<float>(v); };
  switch (type) {
    case ElementType::kBool:
      fill(out.mutable_as<uint8_t>(), [](auto v) { return v != 0; });
      break;
    case ElementType::kInt8:
      fill(out.mutable_as<int8_t>(), same);
      break;
    case ElementType::kUint8:
      fill(out.mutable_as<uint8_t>(), same);
      break;
    case ElementType::kInt32:
      fill(out.mutable_as<int32_t>(), same);
      break;
    case ElementType::kInt64:
      fill(out.mutable_as<int64_t>(), same);
      break;
    case ElementType::kFloat:
      fill(out.mutable_as<float>(), same);
      break;
    case ElementType::kDouble:
      fill(out.mutable_as<double>(), same);
      break;
    case ElementType::kFloat16:
      fill(out.mutable_as<uint16_t>(), [&](auto v) { return f32_to_f16(narrow(v)); });
      break;
    case ElementType::kBfloat16:
      fill(out.mutable_as<uint16_t>(), [&](auto v) { return f32_to_bf16(narrow(v)); });
      break;
    default:
      throw Error(Code::kUnsupported, fmt::format("onnx: an input of {} is not supported here",
                                                  ir::element_type_name(type)));
  }
  return out;
}

bool can_fill(ElementType type) {
  return ir::is_float(type) || type == ElementType::kBool || type == ElementType::kInt8 ||
         type == ElementType::kUint8 || type == ElementType::kInt32 || type == ElementType::kInt64;
}

// What hides a key where masks are added.
float lowest(ElementType type) {
  return type == ElementType::kFloat16 ? -65504.0f : -3.3e38f;
}

}  // namespace

Array ids_like(ElementType type, Shape shape, const std::vector<int64_t>& values) {
  return filled(type, std::move(shape), [&](size_t i) { return values[i % values.size()]; });
}

namespace {

using Pads = std::span<const int64_t>;

int64_t dim_or(const TensorDim& dim, int64_t otherwise) {
  return dim.value >= 0 ? dim.value : otherwise;
}

int64_t pad_of(Pads pads, int64_t sequence) {
  return pads.empty() ? 0 : pads[static_cast<size_t>(sequence)];
}

Array mask_2d(const InputPlan::Line& line, ElementType type, const World& w, Pads pads) {
  const int64_t columns = line.dims.size() > 1 ? dim_or(line.dims[1], w.total()) : w.total();
  std::vector<int64_t> all;
  for (int64_t b = 0; b < w.batch; ++b) {
    for (int64_t i = 0; i < columns; ++i) all.push_back(i >= pad_of(pads, b) && i < w.total());
  }
  return ids_like(type, {w.batch, columns}, all);
}

// The only mask that callers make of a model whose layers all slide is the windowed one.
bool slides_by_config(const TensorGraph& graph, const TensorValue& value) {
  int64_t num_masks = 0;
  for (const TensorValueId id : graph.inputs) {
    const TensorValue& input = graph.values[static_cast<size_t>(id)];
    num_masks += input.name.find("mask") != std::string::npos && input.dims.size() == 4 ? 1 : 0;
  }
  return num_masks == 1 && value.name.find("full") == std::string::npos;
}

int64_t window_of(const TensorGraph& graph, const TensorValue& value,
                  const TokenFormOptions& options) {
  const auto found = options.config.find("sliding_window");
  const bool named = value.name.find("sliding") != std::string::npos;
  if (!named && (found == options.config.end() || !slides_by_config(graph, value))) return 0;
  if (found != options.config.end()) return found->second;
  throw Error(Code::kUnsupported,
              fmt::format("onnx: input {} is a windowed mask, and no config.json beside the model "
                          "says how wide (sliding_window)",
                          shown(value)));
}

// What a ready-made mask holds by its name: causal, or the window of config.json.
Array mask_4d(const InputPlan::Line& line, const TensorValue& value, int64_t window,
              int64_t capacity, const World& w, Pads pads) {
  const int64_t free = w.capacity > 0 ? w.capacity : w.total();
  const int64_t columns = dim_or(line.dims[3], capacity > 0 ? capacity : free);
  const int64_t heads = dim_or(line.dims[1], 1);
  // Floats are added, anything else chooses.
  const bool adds = ir::is_float(value.type);
  const float hides = adds ? lowest(value.type) : 0.0f, shows = adds ? 0.0f : 1.0f;
  return filled(value.type, {w.batch, heads, w.tokens, columns}, [&](size_t at) {
    const auto i = static_cast<int64_t>(at);
    const int64_t key = i % columns, query = w.past + i / columns % w.tokens;
    const int64_t first = pad_of(pads, i / columns / w.tokens / heads);
    const bool seen = key <= query && key >= first && (window == 0 || key > query - window);
    return seen ? shows : hides;
  });
}

Array positions(const InputPlan::Line& line, const TensorValue& value, const World& w, Pads pads) {
  if (line.dims.size() > 2) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: the positions {} are several per token (multimodal rotation, "
                            "M-RoPE), which is not supported; [length] and [batch, length] are",
                            shown(value)));
  }
  const bool flat = line.dims.size() == 1;
  const int64_t rows = flat ? 1 : line.dims.size() == 2 ? dim_or(line.dims[0], w.batch) : w.batch;
  std::vector<int64_t> all;
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t pad = pad_of(pads, b);
    for (int64_t s = 0; s < w.tokens; ++s) all.push_back(std::max<int64_t>(w.past + s - pad, 0));
  }
  return ids_like(value.type, flat ? Shape{w.tokens} : Shape{rows, w.tokens}, all);
}

int64_t meaning(const std::string& text, const World& w) {
  if (text == "past") return w.past;
  if (text == "total") return w.total();
  if (text == "tokens") return w.tokens;
  try {
    return std::stoll(text);
  } catch (const std::exception&) {
    throw Error(Code::kInvalidArgument,
                fmt::format("--input …={}: past, total, tokens or a number are wanted", text));
  }
}

// One number, or one for each sequence where the dim is called as the batch of the ids.
Shape scalar_shape(const TensorGraph& graph, const InputPlan& plan, const TensorValue& value,
                   const World& w) {
  const std::vector<TensorDim>& ids = graph.values[static_cast<size_t>(plan.ids)].dims;
  Shape shape;
  for (const TensorDim& dim : value.dims) {
    const bool per_sequence = dim.value < 0 && !dim.name.empty() && dim == ids.at(0);
    shape.push_back(per_sequence ? w.batch : dim_or(resolved(dim), 1));
  }
  return shape;
}

const ir::TensorNode* producer_of(const TensorGraph& graph, TensorValueId id) {
  for (const ir::TensorNode& node : graph.nodes) {
    if (std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end()) return &node;
  }
  return nullptr;
}

// Of a Split, the size of one output; 0 where it is not written down.
int64_t split_width(const TensorGraph& graph, const ir::TensorNode& node, TensorValueId id) {
  const auto at = std::find(node.outputs.begin(), node.outputs.end(), id) - node.outputs.begin();
  std::vector<int64_t> sizes = node.ints("split");
  if (node.has_input(1)) {
    const auto given = graph.constants.find(node.inputs[1]);
    if (given != graph.constants.end()) sizes = given->second.to_i64(64);
  }
  return static_cast<size_t>(at) < sizes.size() ? sizes[static_cast<size_t>(at)] : 0;
}

// Columns of the product that makes `id`; 0 where that is not seen in a few steps.
int64_t width_of(const TensorGraph& graph, TensorValueId id) {
  for (int step = 0; step < 6; ++step) {
    const ir::TensorNode* node = producer_of(graph, id);
    if (node == nullptr || node->inputs.empty()) return 0;
    if (node->op == "Split") return split_width(graph, *node, id);
    if (node->op == "MatMulNBits") return node->i("N", 0);
    if (node->op == "MatMul" && node->has_input(1)) {
      const auto weight = graph.constants.find(node->inputs[1]);
      if (weight == graph.constants.end()) return 0;
      return weight->second.rank() == 2 ? weight->second.shape()[1] : 0;
    }
    id = node->inputs[0];
  }
  return 0;
}

// GenAI leaves the size of a head free in its caches: the product before the op says it.
int64_t head_dim_of(const TensorGraph& graph, TensorValueId past) {
  for (const ir::TensorNode& node : graph.nodes) {
    if (node.op != "GroupQueryAttention") continue;
    if (std::find(node.inputs.begin(), node.inputs.end(), past) == node.inputs.end()) continue;
    const int64_t heads = node.i("num_heads", 0), kv_heads = node.i("kv_num_heads", 0);
    const int64_t all = node.has_input(1) ? heads : heads + 2 * kv_heads;
    const int64_t width = width_of(graph, node.inputs[0]);
    return all > 0 && width % all == 0 ? width / all : 0;
  }
  return 0;
}

// Fixed dims are the file's word: what they ask for is made before anything else checks them.
void check_dims(const TensorValue& value) {
  constexpr int64_t kMostRows = 1024, kMostElements = int64_t{1} << 24;
  int64_t elements = 1;
  for (const TensorDim& dim : value.dims) {
    const int64_t fixed = std::clamp<int64_t>(resolved(dim).value, 1, kMostElements + 1);
    elements = std::min(elements * fixed, kMostElements + 1);
  }
  const bool many_rows = value.dims.size() > 1 && resolved(value.dims[0]).value > kMostRows;
  if (!many_rows && elements <= kMostElements) return;
  throw Error(Code::kUnsupported,
              fmt::format("onnx: input {} has impossible fixed dims; export with a dynamic batch "
                          "and length",
                          shown(value)));
}

}  // namespace

Array input_array(const TensorGraph& graph, const InputPlan& plan, const InputPlan::Line& line,
                  const TokenFormOptions& options, const World& w, Pads pads) {
  const TensorValue& value = graph.values[static_cast<size_t>(line.id)];
  if (!can_fill(value.type)) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: input {} has a type that Kvern does not fill; floats, bool, "
                            "int32 and int64 are known",
                            shown(value)));
  }
  check_dims(value);
  if (line.role == "mask") return mask_2d(line, value.type, w, pads);
  if (line.role == "mask 4d") {
    return mask_4d(line, value, window_of(graph, value, options), plan.capacity, w, pads);
  }
  if (line.role == "positions") return positions(line, value, w, pads);
  return ids_like(value.type, scalar_shape(graph, plan, value, w), {meaning(line.meaning, w)});
}

Shape past_shape(const TensorGraph& graph, const InputPlan::Line& line, const World& w) {
  Shape shape;
  for (size_t i = 0; i < line.dims.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const int64_t fixed = line.dims[i].value;
    if (fixed >= 0) {
      shape.push_back(fixed);
    } else if (axis == line.batch_axis) {
      shape.push_back(w.batch);
    } else if (axis == line.length_axis) {
      shape.push_back(w.capacity > 0 ? w.capacity : w.past);
    } else if (const int64_t dim = head_dim_of(graph, line.id); dim > 0) {
      shape.push_back(dim);
    } else {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: the cache {} has free dims besides batch and length",
                              shown(graph.values[static_cast<size_t>(line.id)])));
    }
  }
  return shape;
}

}  // namespace kvern::passes::token_form
