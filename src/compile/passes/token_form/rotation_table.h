// Tables of cos and sin: the floats that their numbers lie in, and the frequencies that they show.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// kFloat16 or kBfloat16 where all numbers are such, whatever type holds them now; else kFloat.
ir::ElementType rounded_to(std::span<const float> numbers);
// The number in these floats.
double in_floats(ir::ElementType type, double number);
// How far a cos or sin that was rounded to these floats, more than once maybe, is from the true
// one; 0 for f32.
double rounding_of(ir::ElementType type);

// Position * frequency as the file computes it.
double angle_in(ir::ElementType floats, int64_t position, double frequency);

// That a plan may reach.
int64_t num_positions(const Walk& walk);

// Remembers a turn that a table shows. Tables of half precision show the scale roughly: gives what
// all of one turn take. Throws Error(kUnsupported) where others compute its angles otherwise.
double settled_scale(const RuleCall& call, Turn turn);
// cos or sin of a turn by position, without its scale, as the file has them: [positions, half].
std::vector<double> rounded_table(const Turn& turn, int64_t positions, bool is_sin);

// A constant that may hold the frequencies of a rotation, or sin of them by position.
void note_frequencies(Walk& walk, const ir::Array& array);

// scale * (cos, sin) of position * frequency, one row per position from 0 on.
struct TurnTable {
  std::vector<double> frequencies;
  double scale = 1;
  ir::ElementType floats = ir::ElementType::kFloat;
};
// Of constants [positions, half]; nothing for others. Throws Error(kUnsupported) where later rows
// go on otherwise than the first ones.
std::optional<TurnTable> read_turn_table(const RuleCall& call, Value& cos, Value& sin);

}  // namespace kvern::passes::token_form
