// Tables of cos and sin in the long worlds: what turns the first positions by position times
// frequency must turn the far ones so too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/passes/token_form/rotation.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

constexpr double kNearTolerance = 2e-3;  // tables of f16 too
constexpr double kFarTolerance = 8e-3;   // f32 loses digits of large angles

// scale * cos or sin of position * frequency; which frequency stands at a feature.
struct Reading {
  const std::vector<double>& frequencies;
  bool is_sin = false;
  bool pairs = false;  // feature / 2, else feature modulo half
  double scale = 1;

  double at(int64_t position, int64_t feature) const {
    const auto half = static_cast<int64_t>(frequencies.size());
    const int64_t i = pairs ? feature / 2 : feature % half;
    const double angle = static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
    return is_sin ? std::sin(angle) : std::cos(angle);
  }
};

constexpr const char* kLeaveOut =
    "; the file is quantised: where that rounds the angles or the attention (every MatMul), "
    "quantise "
    "the products with weights alone (nodes_to_quantize)";

bool is_quantised(const ir::TensorGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const ir::TensorNode& node) { return node.op == "QuantizeLinear"; });
}

// The axis of tokens: as long as each world's; -1 for none.
int64_t token_axis(const Walk& walk, const Value& table) {
  for (size_t axis = 0; axis + 1 < table.shapes[0].size(); ++axis) {
    bool fits = true;
    for (size_t w = 0; w < walk.worlds.size(); ++w) {
      fits = fits && table.shapes[w].size() == table.shapes[0].size() &&
             table.shapes[w][axis] == walk.worlds[w].tokens;
    }
    if (fits) return static_cast<int64_t>(axis);
  }
  return -1;
}

class FarTable {
 public:
  FarTable(const Walk& walk, Value& table, int64_t axis) : walk_(walk), axis_(axis) {
    for (size_t w = 0; w < walk.worlds.size(); ++w) {
      values_.push_back(table.known()->at(w).to_f32());
      shapes_.push_back(table.shapes[w]);
    }
  }

  // -1: another thing than what `reading` says of the first worlds; else the first position that
  // is not so, or kEverywhere.
  static constexpr int64_t kEverywhere = INT64_MAX;
  int64_t holds_until(Reading reading) const {
    if (!find_scale(reading)) return -1;
    int64_t until = kEverywhere;
    for (size_t w = 0; w < values_.size(); ++w) {
      const bool near = walk_.worlds[w].layout;
      const int64_t wrong = first_wrong(w, reading, near ? kNearTolerance : kFarTolerance);
      if (wrong == kEverywhere) continue;
      if (near) return -1;
      until = std::min(until, wrong);
    }
    return until;
  }

 private:
  int64_t position(size_t world, size_t element) const {
    int64_t stride = 1;
    for (size_t i = static_cast<size_t>(axis_) + 1; i < shapes_[world].size(); ++i) {
      stride *= shapes_[world][i];
    }
    return walk_.worlds[world].past +
           static_cast<int64_t>(element) / stride % walk_.worlds[world].tokens;
  }

  // From the largest element of the first world.
  bool find_scale(Reading& reading) const {
    double largest = 0;
    for (size_t i = 0; i < values_[0].size(); ++i) {
      const auto feature = static_cast<int64_t>(i) % shapes_[0].back();
      const double there = reading.at(position(0, i), feature);
      if (std::abs(there) <= largest) continue;
      largest = std::abs(there);
      reading.scale = values_[0][i] / there;
    }
    return largest > 0.1 && std::abs(reading.scale) > 1e-3;
  }

  int64_t first_wrong(size_t world, const Reading& reading, double tolerance) const {
    for (size_t i = 0; i < values_[world].size(); ++i) {
      const auto feature = static_cast<int64_t>(i) % shapes_[world].back();
      const int64_t p = position(world, i);
      const double wanted = reading.scale * reading.at(p, feature);
      if (!(std::abs(values_[world][i] - wanted) <= tolerance * std::abs(reading.scale))) return p;
    }
    return kEverywhere;
  }

  const Walk& walk_;
  int64_t axis_;
  std::vector<std::vector<float>> values_;
  std::vector<Shape> shapes_;
};

// The same numbers for every token of every world; `axis` as of token_axis.
bool is_same_everywhere(const Walk& walk, Value& table, int64_t axis) {
  const std::vector<float> first = table.known()->at(0).to_f32();
  const Shape& shape = table.shapes[0];
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(axis < 0 ? 0 : axis + 1); axis >= 0 && i < shape.size();
       ++i) {
    inner *= shape[i];
  }
  for (size_t w = 0; w < walk.worlds.size(); ++w) {
    const std::vector<float> values = table.known()->at(w).to_f32();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != first[i % static_cast<size_t>(inner)]) return false;
    }
  }
  return true;
}

}  // namespace

void check_far_angles(const RuleCall& call, Value& table) {
  const Walk& walk = call.walk;
  if (table.known()->uniform() || !ir::is_float(table.type)) return;
  const int64_t axis = table.shapes[0].size() < 2 ? -1 : token_axis(walk, table);
  if (is_same_everywhere(walk, table, axis)) {
    if (!table.known()->by_length) return;
    throw Error(Code::kUnsupported,
                fmt::format("onnx: {}: it multiplies activations with numbers that the graph "
                            "chooses by length and that are no cos or sin of positions",
                            call.node.who()));
  }
  if (axis < 0) {
    throw Error(
        Code::kUnsupported,
        fmt::format("onnx: {}: it multiplies activations with numbers that depend on length "
                    "or batch",
                    call.node.who()));
  }
  const FarTable far(walk, table, axis);
  const int64_t features = table.shapes[0].back();
  int64_t furthest = -1;
  for (const std::vector<double>& frequencies : walk.frequency_candidates) {
    const auto half = static_cast<int64_t>(frequencies.size());
    if (features != half && features != 2 * half) continue;
    for (const bool is_sin : {false, true}) {
      for (const bool pairs : {false, true}) {
        if (pairs && features == half) continue;
        furthest = std::max(furthest, far.holds_until({frequencies, is_sin, pairs}));
      }
    }
  }
  if (furthest == FarTable::kEverywhere) return;
  if (furthest < 0) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: {}: it multiplies activations with numbers that depend on the "
                            "position and are no cos or sin of position times a frequency that the "
                            "graph holds{}",
                            call.node.who(), is_quantised(walk.model.graph) ? kLeaveOut : ""));
  }
  throw Error(Code::kUnsupported,
              fmt::format("onnx: {}: the angles of its rotation are position times frequency at "
                          "the first positions, and no longer at position {}",
                          call.node.who(), furthest));
}

}  // namespace kvern::passes::token_form
