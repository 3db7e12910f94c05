// A small elementwise program in postfix, as graphs and kernels mean it: each output element is
// what is left on a stack of f32 after the steps. In text, steps are words:
//
//   x0 x1 mul 0.5 add tanh        tanh(x0 * x1 + 0.5)
//   x0 s0 sigmoid mul             x0 * sigmoid(x0): s0 pushes the top again, s1 the one below it, …
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvern {

// Numbers are part of the plan format.
enum class MapOp : uint8_t {
  kInput = 0,     // "x3": pushes input `index`
  kConstant = 1,  // "0.5": pushes `value`, rounded to f32
  kCopy = 2,      // "s1": pushes what lies `index` below the top
  kAdd = 3,
  kSub = 4,  // a b sub: a - b, and so on
  kMul = 5,
  kDiv = 6,
  kPow = 7,
  kMax = 8,  // b > a ? b : a, so that a NaN below stays; min alike
  kMin = 9,
  kLess = 10,   // a < b ? 1 : 0
  kEqual = 11,  // a == b ? 1 : 0
  kNeg = 12,
  kAbs = 13,
  kSqrt = 14,
  kRsqrt = 15,  // 1 / sqrt(a)
  kRecip = 16,  // 1 / a
  kExp = 17,
  kLog = 18,
  kTanh = 19,
  kSigmoid = 20,
  kErf = 21,
  kSin = 22,
  kCos = 23,
  kRound = 24,  // to nearest, halves to even
  kFloor = 25,
  kCeil = 26,
  kWhere = 27,  // c a b where: c != 0 ? a : b
};

inline constexpr int kNumMapOps = 28;
// A plan may ask for no more than a kernel holds on its stack.
inline constexpr int kMaxMapDepth = 12;
inline constexpr int kMaxMapSteps = 512;
inline constexpr int kMaxMapInputs = 16;

struct MapStep {
  MapOp op = MapOp::kInput;
  int32_t index = 0;  // kInput, kCopy
  double value = 0;   // kConstant
  friend bool operator==(const MapStep&, const MapStep&) = default;
};

using MapProgram = std::vector<MapStep>;

// Values that an op takes from the stack: 0 (it pushes one of its own) to 3.
int map_arity(MapOp op);
// Throws Error(kInvalidModel) with the word that is none.
MapProgram parse_map_program(std::string_view text);
std::string to_text(const MapProgram& program);
// What is wrong with it, empty when nothing is: unknown ops, inputs that are not there, a stack
// that runs empty, too deep or does not end with one value, constants that are not finite in f32.
std::string map_problem(const MapProgram& program, int num_inputs);

// One op on its operands, by libm: what every implementation approximates.
float map_value(MapOp op, float a, float b, float c);

// The same program as a plan holds it: op | index << 8, constants apart with their place as index.
struct MapCode {
  std::vector<int64_t> code;
  std::vector<double> constants;
};
MapCode encode_map(const MapProgram& program);
// Steps whose op or constant is not there come as ops that map_problem refuses.
MapProgram decode_map(std::span<const int64_t> code, std::span<const double> constants);

}  // namespace kvern
