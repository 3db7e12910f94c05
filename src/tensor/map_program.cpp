#include "tensor/map_program.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "kvern/error.h"

namespace kvern {
namespace {

struct OpInfo {
  const char* name;
  int arity;
};

// By MapOp.
constexpr OpInfo kOps[kNumMapOps] = {
    {"x", 0},     {"", 0},      {"s", 0},       {"add", 2},   {"sub", 2},   {"mul", 2},
    {"div", 2},   {"pow", 2},   {"max", 2},     {"min", 2},   {"less", 2},  {"equal", 2},
    {"neg", 1},   {"abs", 1},   {"sqrt", 1},    {"rsqrt", 1}, {"recip", 1}, {"exp", 1},
    {"log", 1},   {"tanh", 1},  {"sigmoid", 1}, {"erf", 1},   {"sin", 1},   {"cos", 1},
    {"round", 1}, {"floor", 1}, {"ceil", 1},    {"where", 3},
};

bool known(MapOp op) {
  return static_cast<int>(op) < kNumMapOps;
}

// "x12": the number behind the letter; -1 when it is none.
int32_t index_of(std::string_view word) {
  int32_t index = -1;
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), index);
  return error == std::errc() && end == word.data() + word.size() && index >= 0 ? index : -1;
}

MapStep parse_step(std::string_view word) {
  for (int op = static_cast<int>(MapOp::kAdd); op < kNumMapOps; ++op) {
    if (word == kOps[op].name) return {static_cast<MapOp>(op)};
  }
  if (word.size() > 1 && (word[0] == 'x' || word[0] == 's') && index_of(word) >= 0) {
    return {word[0] == 'x' ? MapOp::kInput : MapOp::kCopy, index_of(word)};
  }
  MapStep step{MapOp::kConstant};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), step.value);
  if (error != std::errc() || end != word.data() + word.size()) {
    throw Error(
        Code::kInvalidModel,
        fmt::format("map program: '{}' is neither an op, an input, a copy nor a number", word));
  }
  return step;
}

}  // namespace

int map_arity(MapOp op) {
  return known(op) ? kOps[static_cast<size_t>(op)].arity : 0;
}

MapProgram parse_map_program(std::string_view text) {
  MapProgram program;
  while (true) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return program;
    const size_t end = std::min(text.find(' ', begin), text.size());
    program.push_back(parse_step(text.substr(begin, end - begin)));
    text.remove_prefix(end);
  }
}

std::string to_text(const MapProgram& program) {
  std::string out;
  for (const MapStep& step : program) {
    if (!out.empty()) out += ' ';
    if (step.op == MapOp::kConstant)
      out += fmt::format("{}", static_cast<float>(step.value));
    else if (map_arity(step.op) == 0)
      out += fmt::format("{}{}", kOps[static_cast<size_t>(step.op)].name, step.index);
    else
      out += kOps[static_cast<size_t>(step.op)].name;
  }
  return out;
}

std::string map_problem(const MapProgram& program, int num_inputs) {
  if (program.empty() || program.size() > kMaxMapSteps) {
    return fmt::format("{} steps; 1 to {} are wanted", program.size(), kMaxMapSteps);
  }
  int depth = 0;
  for (size_t i = 0; i < program.size(); ++i) {
    const MapStep& step = program[i];
    if (!known(step.op)) return fmt::format("step {} is op {}", i, static_cast<int>(step.op));
    const bool in_range = step.op == MapOp::kInput
                              ? step.index >= 0 && step.index < num_inputs
                              : step.op != MapOp::kCopy || (step.index >= 0 && step.index < depth);
    if (!in_range) {
      return fmt::format("step {} reads {}{} of {}", i, step.op == MapOp::kInput ? 'x' : 's',
                         step.index, step.op == MapOp::kInput ? num_inputs : depth);
    }
    if (step.op == MapOp::kConstant && !std::isfinite(static_cast<float>(step.value))) {
      return fmt::format("step {} is the constant {}, which f32 cannot hold", i, step.value);
    }
    if (depth < map_arity(step.op)) return fmt::format("step {} finds {} values", i, depth);
    depth += 1 - map_arity(step.op);
    if (depth > kMaxMapDepth) return fmt::format("more than {} values on the stack", kMaxMapDepth);
  }
  return depth == 1 ? "" : fmt::format("{} values are left, 1 is wanted", depth);
}

float map_value(MapOp op, float a, float b, float c) {
  switch (op) {
    case MapOp::kInput:
    case MapOp::kConstant:
    case MapOp::kCopy:
      return a;
    case MapOp::kAdd:
      return a + b;
    case MapOp::kSub:
      return a - b;
    case MapOp::kMul:
      return a * b;
    case MapOp::kDiv:
      return a / b;
    case MapOp::kPow:
      return std::pow(a, b);
    case MapOp::kMax:
      return b > a ? b : a;
    case MapOp::kMin:
      return b < a ? b : a;
    case MapOp::kLess:
      return a < b ? 1.0f : 0.0f;
    case MapOp::kEqual:
      return a == b ? 1.0f : 0.0f;
    case MapOp::kNeg:
      return -a;
    case MapOp::kAbs:
      return std::fabs(a);
    case MapOp::kSqrt:
      return std::sqrt(a);
    case MapOp::kRsqrt:
      return 1.0f / std::sqrt(a);
    case MapOp::kRecip:
      return 1.0f / a;
    case MapOp::kExp:
      return std::exp(a);
    case MapOp::kLog:
      return std::log(a);
    case MapOp::kTanh:
      return std::tanh(a);
    case MapOp::kSigmoid:
      return 1.0f / (1.0f + std::exp(-a));
    case MapOp::kErf:
      return std::erf(a);
    case MapOp::kSin:
      return std::sin(a);
    case MapOp::kCos:
      return std::cos(a);
    case MapOp::kRound:
      return std::nearbyint(a);
    case MapOp::kFloor:
      return std::floor(a);
    case MapOp::kCeil:
      return std::ceil(a);
    case MapOp::kWhere:
      return a != 0.0f ? b : c;
  }
  return std::numeric_limits<float>::quiet_NaN();
}

MapCode encode_map(const MapProgram& program) {
  MapCode out;
  for (const MapStep& step : program) {
    int64_t index = step.index;
    if (step.op == MapOp::kConstant) {
      index = static_cast<int64_t>(out.constants.size());
      out.constants.push_back(step.value);
    }
    out.code.push_back(static_cast<int64_t>(step.op) | index << 8);
  }
  return out;
}

MapProgram decode_map(std::span<const int64_t> code, std::span<const double> constants) {
  constexpr auto kNone = static_cast<MapOp>(255);
  MapProgram out;
  for (const int64_t step : code) {
    const int64_t op = step & 255;
    const int64_t index = step >> 8;
    const bool constant = op == static_cast<int64_t>(MapOp::kConstant);
    const int64_t limit =
        constant ? static_cast<int64_t>(constants.size()) : std::numeric_limits<int32_t>::max();
    if (index < 0 || index >= limit) {
      out.push_back({kNone});
    } else if (constant) {
      out.push_back({MapOp::kConstant, 0, constants[static_cast<size_t>(index)]});
    } else {
      out.push_back({static_cast<MapOp>(op), static_cast<int32_t>(index)});
    }
  }
  return out;
}

}  // namespace kvern
