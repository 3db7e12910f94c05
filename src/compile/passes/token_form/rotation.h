// A row of an attention's q or k as features of a token, turned by its position or not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

struct TurnedRow {
  int32_t base = -1;
  int32_t token = 0;
  std::vector<int32_t> features;  // in the order in which heads are laid out
  double factor = 1;
  int64_t rotary_dim = 0;  // 0: not turned
  bool interleaved = false;
  std::vector<double> angles;  // [rotary_dim / 2]
};
// `row`: the symbols of one head of one token. `why` says what else it is.
std::optional<TurnedRow> decode_row(const Walk& walk, std::span<const Symbol> row,
                                    std::string* why);

// `table` multiplies activations: throws Error(kUnsupported) where it is neither the same for every
// position of every world, nor cos or sin of position * frequency in all of them, for frequencies
// of the graph. Gives the table, in the layout worlds without what half precision rounded.
Value exact_angles(const RuleCall& call, Value& table);
// x is multiplied by what exact_angles gave: remembers by which frequencies its far tokens turn.
void note_turned(Walk& walk, const View& x, const Value& table);

// x [batch, heads, tokens, dim] or [batch, tokens, heads * dim], turned by the rows of cos and sin
// at `positions` (null: those of the tokens).
Value rotate(const RuleCall& call, Value& x, Value& cos, Value& sin, Value* positions,
             int64_t heads, bool interleaved);

// Angles by position, from rows of many tokens; finds angle = position * frequency.
class AngleTable {
 public:
  // False when the same position was turned otherwise before.
  bool add(int64_t position, const std::vector<double>& angles);
  bool empty() const { return by_position_.empty(); }
  // [rotary_dim / 2]; empty (and `why`) where angles are not proportional to positions.
  std::vector<double> frequencies(const std::vector<std::vector<double>>& candidates,
                                  std::string* why) const;

 private:
  std::map<int64_t, std::vector<double>> by_position_;
};

}  // namespace kvern::passes::token_form
