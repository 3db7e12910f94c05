// Tables of cos and sin in the long worlds: what turns the first positions by position times
// frequency must turn the far ones so too. Once that is shown, the numbers that a file of half
// precision rounded are taken unrounded, so that all that comes after is as exact as in f32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compile/passes/token_form/rotation.h"
#include "compile/passes/token_form/rotation_table.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

constexpr double kNearTolerance = 2e-3;
constexpr double kFarTolerance = 8e-3;  // f32 loses digits of large angles
constexpr double kSameAngle = 0x1p-12;  // the file may compute it in less than f32

// scale * cos or sin of position * frequency; which frequency stands at a feature.
struct Reading {
  const std::vector<double>* frequencies = nullptr;
  bool is_sin = false;
  bool pairs = false;                                // feature / 2, else feature modulo half
  ir::ElementType angles = ir::ElementType::kFloat;  // that the file multiplies in
  double scale = 1;

  double at(int64_t position, int64_t feature) const {
    const auto half = static_cast<int64_t>(frequencies->size());
    const int64_t i = pairs ? feature / 2 : feature % half;
    const double angle = angle_in(angles, position, (*frequencies)[static_cast<size_t>(i)]);
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
    floats_ = rounded_to(values_[0]);
    for (size_t w = 1; w < walk.num_layout; ++w) {
      if (rounded_to(values_[w]) != floats_) floats_ = ir::ElementType::kFloat;
    }
  }

  static constexpr int64_t kEverywhere = INT64_MAX;
  struct Fit {
    Reading reading;
    // -1: another thing than what `reading` says of the first worlds; else the first position that
    // is not so, or kEverywhere.
    int64_t until = -1;
    double away = INFINITY;  // the largest difference
    bool is_better_than(const Fit& other) const {
      return until != other.until ? until > other.until : away < other.away;
    }
  };
  Fit best() const {
    Fit out;
    for (const ir::ElementType angles :
         {ir::ElementType::kFloat, ir::ElementType::kFloat16, ir::ElementType::kBfloat16}) {
      Fit found = best_of(angles);
      if (found.is_better_than(out)) out = found;
      // Small angles that were rounded look much like others whose cos and sin were.
      const double rounding = rounding_of(floats_);
      if (out.until == kEverywhere && (rounding == 0 || out.away <= rounding)) break;
    }
    return out;
  }
  bool is_everywhere(Reading reading, ir::ElementType angles) const {
    reading.angles = angles;
    return fit(reading).until == kEverywhere;
  }

  ir::ElementType floats() const { return floats_; }

  // What the file rounds, unrounded, in the layout worlds.
  Value exact(Value& table, Reading reading) const {
    reading.angles = ir::ElementType::kFloat;
    std::vector<ir::Array> arrays;
    for (size_t w = 0; w < values_.size(); ++w) {
      if (w >= walk_.num_layout) {
        arrays.push_back(table.known()->at(w));
        continue;
      }
      ir::Array array(ir::ElementType::kFloat, shapes_[w]);
      const std::span<float> to = array.mutable_as<float>();
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = static_cast<float>(reading.scale * reading.at(position(w, i), feature(w, i)));
      }
      arrays.push_back(std::move(array));
    }
    return known(ir::ElementType::kFloat, std::move(arrays));
  }

  // Of scale * x in the layout worlds, by least squares: roundings cancel.
  double scale_of(const Reading& reading) const {
    double product = 0, square = 0;
    for (size_t w = 0; w < walk_.num_layout; ++w) {
      for (size_t i = 0; i < values_[w].size(); ++i) {
        const double x = reading.at(position(w, i), feature(w, i));
        product += x * values_[w][i];
        square += x * x;
      }
    }
    return square > 0 ? product / square : reading.scale;
  }

 private:
  Fit best_of(ir::ElementType angles) const {
    Fit out;
    const int64_t features = shapes_[0].back();
    for (const std::vector<double>& frequencies : walk_.frequency_candidates) {
      const auto half = static_cast<int64_t>(frequencies.size());
      if (features != half && features != 2 * half) continue;
      for (const bool is_sin : {false, true}) {
        for (const bool pairs : {false, true}) {
          if (pairs && features == half) continue;
          Fit found = fit({&frequencies, is_sin, pairs, angles});
          if (found.is_better_than(out)) out = found;
        }
      }
    }
    return out;
  }

  Fit fit(Reading reading) const {
    Fit out{reading, -1, 0};
    if (!find_scale(out.reading)) return out;
    out.until = kEverywhere;
    for (size_t w = 0; w < values_.size(); ++w) {
      const bool near = walk_.worlds[w].layout;
      const double allowed = (near ? kNearTolerance : kFarTolerance) + rounding_of(floats_);
      const int64_t wrong = first_wrong(w, out.reading, allowed, out.away);
      if (wrong == kEverywhere) continue;
      out.until = near ? -1 : std::min(out.until, wrong);
      if (near) break;
    }
    return out;
  }

  int64_t feature(size_t world, size_t element) const {
    return static_cast<int64_t>(element) % shapes_[world].back();
  }
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
      const double there = reading.at(position(0, i), feature(0, i));
      if (std::abs(there) <= largest) continue;
      largest = std::abs(there);
      reading.scale = values_[0][i] / there;
    }
    return largest > 0.1 && std::abs(reading.scale) > 1e-3;
  }

  // The first position that is further from the reading than allowed; `away` grows.
  int64_t first_wrong(size_t world, const Reading& reading, double tolerance, double& away) const {
    for (size_t i = 0; i < values_[world].size(); ++i) {
      const int64_t p = position(world, i);
      const double wanted = reading.scale * reading.at(p, feature(world, i));
      const double here = std::abs(values_[world][i] - wanted) / std::abs(reading.scale);
      if (!(here <= tolerance)) return p;
      away = std::max(away, here);
    }
    return kEverywhere;
  }

  const Walk& walk_;
  int64_t axis_;
  std::vector<std::vector<float>> values_;
  std::vector<Shape> shapes_;
  ir::ElementType floats_ = ir::ElementType::kFloat;  // that its numbers lie in
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

// What the angles of the file, computed in less than f32, are off at most.
double angle_error(const RuleCall& call, const Reading& reading) {
  double out = 0;
  for (int64_t p = 0; p < num_positions(call.walk); ++p) {
    for (const double f : *reading.frequencies) {
      const double angle = angle_in(reading.angles, p, f);
      if (!std::isfinite(angle)) {
        throw Error(Code::kUnsupported,
                    fmt::format("onnx: {}: the file computes the angles of its rotation in {}, "
                                "which has no such number at position {}. Export with the rotary "
                                "part in float32, or build with --max-context-length {}",
                                call.node.who(), ir::element_type_name(reading.angles), p, p));
      }
      out = std::max(out, std::abs(angle - static_cast<double>(p) * f));
    }
  }
  return out;
}

// All tables of a turn have the same angles, though some show it less than others.
void settle_angles(const RuleCall& call, const FarTable& far, Reading& reading) {
  if (reading.angles != ir::ElementType::kFloat) {
    const double error = angle_error(call, reading);
    if (error <= std::max(kSameAngle, rounding_of(far.floats()))) {
      reading.angles = ir::ElementType::kFloat;
    } else if (error <= kFarTolerance) {
      for (Turn& turn : call.walk.turns) {
        if (turn.frequencies == *reading.frequencies && turn.angles == ir::ElementType::kFloat) {
          turn.angles = reading.angles;
        }
      }
    }
  }
  for (const Turn& turn : call.walk.turns) {
    if (turn.frequencies == *reading.frequencies && far.is_everywhere(reading, turn.angles)) {
      reading.angles = turn.angles;
    }
  }
}

[[noreturn]] void refuse_far(const RuleCall& call, int64_t until) {
  if (until >= 0) {
    throw Error(
        Code::kUnsupported,
        fmt::format("onnx: {}: the angles of its rotation are position times frequency at "
                    "the first positions, and no longer at position {}; where that is what the "
                    "model should do, build with --max-context-length {}",
                    call.node.who(), until, until));
  }
  throw Error(Code::kUnsupported,
              fmt::format("onnx: {}: it multiplies activations with numbers that depend on the "
                          "position and are no cos or sin of position times a list of frequencies "
                          "among the graph's constants{}",
                          call.node.who(), is_quantised(call.walk.model.graph) ? kLeaveOut : ""));
}

}  // namespace

Value exact_angles(const RuleCall& call, Value& table) {
  Walk& walk = call.walk;
  if (table.known()->uniform() || !ir::is_float(table.type)) return table;
  const int64_t axis = table.shapes[0].size() < 2 ? -1 : token_axis(walk, table);
  if (is_same_everywhere(walk, table, axis)) {
    if (!table.known()->by_length) return table;
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
  FarTable::Fit fit = far.best();
  if (fit.until != FarTable::kEverywhere) {
    if (fit.reading.angles != ir::ElementType::kFloat) angle_error(call, fit.reading);
    refuse_far(call, fit.until);
  }
  Reading& reading = fit.reading;
  settle_angles(call, far, reading);
  const bool is_rounded =
      fit.reading.angles != ir::ElementType::kFloat || far.floats() != ir::ElementType::kFloat;
  const double scale = is_rounded ? far.scale_of(reading) : reading.scale;
  reading.scale = settled_scale(call, {*reading.frequencies, scale, far.floats(), reading.angles});
  Value out = is_rounded ? far.exact(table, reading) : table;
  out.known()->frequencies = std::make_shared<const std::vector<double>>(*reading.frequencies);
  return out;
}

void note_turned(Walk& walk, const View& x, const Value& table) {
  const auto& frequencies = table.known()->frequencies;
  if (frequencies == nullptr) return;
  std::set<int32_t> bases;
  for (const ir::Array& elements : x.elements) {
    for (const Symbol& s : symbols(elements)) bases.insert({s.base[0], s.base[1]});
  }
  for (const int32_t base : bases) {
    if (base < 0) continue;
    auto& all = walk.turned_by[base];
    if (std::find(all.begin(), all.end(), *frequencies) == all.end()) all.push_back(*frequencies);
  }
}

}  // namespace kvern::passes::token_form
