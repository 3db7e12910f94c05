#include "compile/passes/token_form/rotation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::passes::token_form {
namespace {

using ir::ElementType;

// Of files that do not say for how many tokens they are.
constexpr int64_t kMostPositions = 2048;
constexpr double kTurn = 2 * std::numbers::pi;

void note_candidate(Walk& walk, std::vector<double> frequencies) {
  auto& all = walk.frequency_candidates;
  if (std::find(all.begin(), all.end(), frequencies) == all.end()) {
    all.push_back(std::move(frequencies));
  }
}

// [.., n, ..] of ones.
bool is_list(const Shape& shape) {
  return std::count_if(shape.begin(), shape.end(), [](int64_t dim) { return dim != 1; }) <= 1;
}

// The frequency of sin in column `column` of rows of `width`: from rows 1, 2, 4, …, each of which
// says more digits of what the ones before it say.
double frequency_of_sin(std::span<const float> table, int64_t rows, int64_t width, int64_t column) {
  double out = 0;
  for (int64_t p = 1; p < rows; p *= 2) {
    const auto position = static_cast<double>(p);
    const double sine = table[static_cast<size_t>(p * width + column)];
    const double guess = out * position, slope = std::cos(guess);
    if (std::abs(sine) > 1 || (p > 1 && std::abs(slope) < 0.3)) continue;
    const double angle = slope < 0 ? std::numbers::pi - std::asin(sine) : std::asin(sine);
    out += std::remainder(angle - guess, kTurn) / position;
  }
  return out;
}

// Half of a list that holds each frequency twice, one after the other or in two runs.
void note_halved(Walk& walk, const std::vector<double>& twice) {
  const size_t half = twice.size() / 2;
  std::vector<double> run, pairs;
  for (size_t i = 0; i < half; ++i) {
    run.push_back(twice[i]);
    pairs.push_back(twice[2 * i]);
  }
  if (twice.size() % 2 != 0) return;
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-6 * (1 + std::abs(a)); };
  bool is_run = true, is_pairs = true;
  for (size_t i = 0; i < half; ++i) {
    is_run = is_run && near(twice[i], twice[i + half]);
    is_pairs = is_pairs && near(twice[2 * i], twice[2 * i + 1]);
  }
  if (is_run) note_candidate(walk, std::move(run));
  if (is_pairs) note_candidate(walk, std::move(pairs));
}

// The sin columns of a table's first row: 0 there, and cos columns 1; none where it holds others.
std::vector<int64_t> sine_columns(const ir::Array& array, int64_t width) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < width; ++i) {
    const auto at = static_cast<size_t>(i);
    const double first =
        array.type() == ElementType::kFloat      ? array.as<float>()[at]
        : array.type() == ElementType::kFloat16  ? f16_to_f32(array.as<uint16_t>()[at])
        : array.type() == ElementType::kBfloat16 ? bf16_to_f32(array.as<uint16_t>()[at])
                                                 : NAN;
    if (first != 0 && first != 1) return {};
    if (first == 0) out.push_back(i);
  }
  return out;
}

// A table [positions, features] whose first row is that of position 0. What uses it compares every
// number with the frequencies that it shows.
void note_sin_table(Walk& walk, const ir::Array& array) {
  const Shape& shape = array.shape();
  if (shape.size() < 2 || shape.back() < 1 || shape.back() > 1024) return;
  const int64_t rows = shape[shape.size() - 2], width = shape.back();
  if (rows < 4 || rows * width != array.count()) return;
  const std::vector<int64_t> sines = sine_columns(array, width);
  if (sines.empty()) return;
  const std::vector<float> table = array.to_f32();
  std::vector<double> frequencies;
  for (const int64_t column : sines) {
    const double f = frequency_of_sin(table, rows, width, column);
    const float third = table[static_cast<size_t>(3 * width + column)];
    if (!(f >= 0) || std::abs(std::sin(3 * f) - third) > 2e-2) return;
    frequencies.push_back(f);
  }
  note_halved(walk, frequencies);
  note_candidate(walk, std::move(frequencies));
}

// Position * frequency over all rows, where those of a doubling position say it roughly.
double refined(double frequency, std::span<const float> cos, std::span<const float> sin,
               int64_t half, int64_t column) {
  double sum = 0, weight = 0;
  const auto rows = static_cast<int64_t>(cos.size()) / half;
  for (int64_t p = 1; p < rows; ++p) {
    const auto at = static_cast<size_t>(p * half + column);
    const auto position = static_cast<double>(p);
    const double away = std::atan2(sin[at], cos[at]) - frequency * position;
    sum += position * std::remainder(away, kTurn);
    weight += position * position;
  }
  return weight > 0 ? frequency + sum / weight : frequency;
}

std::vector<double> measured(std::span<const float> cos, std::span<const float> sin, int64_t half,
                             bool is_rounded) {
  const int64_t rows = static_cast<int64_t>(cos.size()) / half;
  std::vector<double> out;
  for (int64_t i = 0; i < half; ++i) {
    double f = 0;
    for (int64_t p = 1; p < rows; p *= 2) {
      const auto at = static_cast<size_t>(p * half + i);
      const auto position = static_cast<double>(p);
      f += std::remainder(std::atan2(sin[at], cos[at]) - f * position, kTurn) / position;
    }
    out.push_back(is_rounded ? refined(f, cos, sin, half, i) : f);
  }
  return out;
}

// The first row that goes on otherwise than those before it; -1: none.
int64_t first_other_row(std::span<const float> cos, std::span<const float> sin,
                        const TurnTable& table) {
  const auto half = static_cast<int64_t>(table.frequencies.size());
  const int64_t rows = static_cast<int64_t>(cos.size()) / half;
  const double allowed = (1e-2 + rounding_of(table.floats)) * table.scale;
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const auto at = static_cast<size_t>(p * half + i);
      const double angle = static_cast<double>(p) * table.frequencies[static_cast<size_t>(i)];
      const double away = std::hypot(cos[at] - table.scale * std::cos(angle),
                                     sin[at] - table.scale * std::sin(angle));
      if (!(away <= allowed)) return p;
    }
  }
  return -1;
}

}  // namespace

ElementType rounded_to(std::span<const float> numbers) {
  const auto all = [&](ElementType type) {
    return std::all_of(numbers.begin(), numbers.end(), [&](float x) {
      return std::isnan(x) || in_floats(type, x) == static_cast<double>(x);
    });
  };
  // Most numbers of bf16 are f16 too, and few the other way round.
  if (all(ElementType::kBfloat16)) return ElementType::kBfloat16;
  return all(ElementType::kFloat16) ? ElementType::kFloat16 : ElementType::kFloat;
}

double in_floats(ElementType type, double number) {
  const auto narrow = static_cast<float>(number);
  if (type == ElementType::kFloat16) return f16_to_f32(f32_to_f16(narrow));
  if (type == ElementType::kBfloat16) return bf16_to_f32(f32_to_bf16(narrow));
  return number;
}

double rounding_of(ElementType type) {
  if (type == ElementType::kFloat16) return 0x1p-10;
  return type == ElementType::kBfloat16 ? 0x1p-7 : 0;
}

double angle_in(ElementType floats, int64_t position, double frequency) {
  return in_floats(floats, in_floats(floats, static_cast<double>(position)) * frequency);
}

int64_t num_positions(const Walk& walk) {
  int64_t out = walk.options.context_length > 0 ? walk.options.context_length : kMostPositions;
  for (const World& w : walk.worlds) out = std::max(out, w.total());
  return out;
}

double settled_scale(const RuleCall& call, Turn turn) {
  const double sign = turn.scale < 0 ? -1 : 1, rounding = rounding_of(turn.floats);
  turn.scale = std::abs(turn.scale);
  if (std::abs(turn.scale - 1) <= rounding) turn.scale = 1;
  for (const Turn& other : call.walk.turns) {
    if (other.frequencies != turn.frequencies) continue;
    if (other.angles != turn.angles) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: {}: it turns by angles computed in {}, and other nodes by the "
                              "same frequencies in {}: export with the rotary part in float32",
                              call.node.who(), ir::element_type_name(turn.angles),
                              ir::element_type_name(other.angles)));
    }
    if (std::abs(other.scale - turn.scale) <= 2 * rounding * turn.scale) return sign * other.scale;
  }
  call.walk.turns.push_back(std::move(turn));
  return sign * call.walk.turns.back().scale;
}

std::vector<double> rounded_table(const Turn& turn, int64_t positions, bool is_sin) {
  std::vector<double> out;
  for (int64_t p = 0; p < positions; ++p) {
    for (const double f : turn.frequencies) {
      const double angle = angle_in(turn.angles, p, f);
      const double value = is_sin ? std::sin(angle) : std::cos(angle);
      out.push_back(turn.scale == 1 ? in_floats(turn.floats, value) : value);
    }
  }
  return out;
}

void note_frequencies(Walk& walk, const ir::Array& array) {
  const bool is_number = array.rank() == 0;  // a head of which two dims turn has a list of one
  if (!ir::is_float(array.type()) || is_number || array.count() < 1) return;
  if (!is_list(array.shape())) return note_sin_table(walk, array);
  if (array.count() > 1024) return;
  std::vector<double> values = array.to_f64();
  const auto fits = [](double f) { return f >= 0 && f <= 4; };
  if (!std::all_of(values.begin(), values.end(), fits)) return;
  // A frequency of 0 leaves its features as they are.
  if (std::all_of(values.begin(), values.end(), [](double f) { return f == 0; })) return;
  note_candidate(walk, std::move(values));
}

std::optional<TurnTable> read_turn_table(const RuleCall& call, Value& cos, Value& sin) {
  if (cos.known() == nullptr || sin.known() == nullptr || !cos.known()->uniform() ||
      cos.shapes[0].size() != 2) {
    return std::nullopt;
  }
  Walk& walk = call.walk;
  const int64_t half = cos.shapes[0][1];
  std::vector<float> c = cos.known()->at(0).to_f32(), s = sin.known()->at(0).to_f32();
  if (walk.options.context_length > 0) {  // no other rows are read
    const int64_t rows = std::min(cos.shapes[0][0], walk.options.context_length);
    c.resize(static_cast<size_t>(rows * half));
    s.resize(c.size());
  }
  TurnTable out;
  out.floats = rounded_to(c) == rounded_to(s) ? rounded_to(c) : ElementType::kFloat;
  const double rounding = rounding_of(out.floats);
  out.frequencies = measured(c, s, half, rounding > 0);
  out.scale = std::hypot(c[0], s[0]);
  const int64_t other = first_other_row(c, s, out);
  if (other >= 0) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: {}: row {} of its tables of cos and sin is not position times "
                            "the frequency of the rows before it; build with a "
                            "--max-context-length of at most {}, or export without what changes "
                            "the angles there",
                            call.node.who(), other, other));
  }
  if (rounding > 0) {
    out.scale = settled_scale(call, {out.frequencies, out.scale, out.floats});
  }
  note_candidate(walk, out.frequencies);
  return out;
}

}  // namespace kvern::passes::token_form
