// What a mask lets see, found from its values in every world.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvern::passes::token_form {

// Below the row's highest bias by more: masked, but for what goes on with an ALiBi slope. Exports
// fill with -10000 (old ones), -65504, the lowest float or -inf.
inline constexpr float kMaskedBelow = 9000.0f;

class MaskProof {
 public:
  explicit MaskProof(int64_t heads) : slopes_(static_cast<size_t>(heads)) {}

  // What is added to the scores of the token at `position`, by the absolute positions of the keys
  // (-1: a key that is no token). False with why() when no causal, windowed or ALiBi mask says so.
  // head -1: every head.
  bool add_row(int64_t head, int64_t position, std::span<const int64_t> key_positions,
               std::span<const float> bias);
  const std::string& why() const { return why_; }

  int64_t window() const { return window_; }    // 0: none was seen
  std::vector<double> slopes() const;           // per head; empty: no ALiBi
  int64_t longest() const { return longest_; }  // keys of the longest row

 private:
  struct Row {
    int64_t head, position;
    float own = 0, highest = 0;  // bias of the token's own key, and of any
  };

  bool refuse(std::string why);
  // True where the bias of a key goes on with the slope that nearer keys have.
  bool on_slope(size_t head, const Row& row, int64_t key, float bias) const;
  bool is_hidden(const Row& row, int64_t key, float bias) const;
  bool note_window(int64_t position, int64_t first);
  bool note_slopes(const Row& row, std::span<const int64_t> key_positions,
                   std::span<const float> bias);

  std::vector<std::optional<double>> slopes_;
  int64_t window_ = 0;
  int64_t seen_whole_ = 0;  // the longest row that saw everything before it
  int64_t longest_ = 0;
  std::string why_;
};

}  // namespace kvern::passes::token_form
