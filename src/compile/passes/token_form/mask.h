// What a mask lets see, found from its values in every world.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvern::passes::token_form {

// Below the row's highest bias by more: masked. Exports fill with -10000 (old ones), -65504, the
// lowest float or -inf; ALiBi stays far above at the lengths that are evaluated.
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
  bool refuse(std::string why);
  bool note_window(int64_t position, int64_t first);
  bool note_slopes(int64_t head, int64_t position, std::span<const int64_t> key_positions,
                   std::span<const float> bias, float own, float highest);

  std::vector<std::optional<double>> slopes_;
  int64_t window_ = 0;
  int64_t seen_whole_ = 0;  // the longest row that saw everything before it
  int64_t longest_ = 0;
  std::string why_;
};

}  // namespace kvern::passes::token_form
