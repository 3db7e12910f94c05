#include "compile/passes/token_form/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvern::passes::token_form {

bool MaskProof::refuse(std::string why) {
  why_ = std::move(why);
  return false;
}

bool MaskProof::note_window(int64_t position, int64_t first) {
  if (first == 0) {
    seen_whole_ = std::max(seen_whole_, position + 1);
  } else {
    const int64_t here = position - first + 1;
    if (window_ != 0 && window_ != here) {
      return refuse(fmt::format("one token sees {} positions, another one {}", window_, here));
    }
    window_ = here;
  }
  if (window_ != 0 && seen_whole_ > window_) {
    return refuse(fmt::format("one token sees {} positions, another one {}", window_, seen_whole_));
  }
  return true;
}

bool MaskProof::note_slopes(int64_t head, int64_t position, std::span<const int64_t> key_positions,
                            std::span<const float> bias, float own, float highest) {
  for (size_t j = 0; j < bias.size(); ++j) {
    if (bias[j] <= highest - kMaskedBelow || key_positions[j] == position) continue;
    const double slope =
        (static_cast<double>(bias[j]) - own) / static_cast<double>(key_positions[j] - position);
    const size_t first = head < 0 ? 0 : static_cast<size_t>(head);
    const size_t last = head < 0 ? slopes_.size() : first + 1;
    for (size_t h = first; h < last; ++h) {
      if (!slopes_[h]) slopes_[h] = slope;
      // f32 holds slope * position to seven digits.
      const double tolerance = 1e-6 * (1 + std::abs(*slopes_[h]) * static_cast<double>(position));
      if (std::abs(*slopes_[h] - slope) > tolerance) {
        return refuse(
            fmt::format("its values are no mask and not proportional to the distance of "
                        "tokens (ALiBi): {} at distance {}",
                        bias[j] - own, position - key_positions[j]));
      }
    }
  }
  return true;
}

bool MaskProof::add_row(int64_t head, int64_t position, std::span<const int64_t> key_positions,
                        std::span<const float> bias) {
  float highest = -std::numeric_limits<float>::infinity();
  for (const float value : bias) {
    if (std::isnan(value)) {
      return refuse(fmt::format("for the token at position {} its mask is NaN", position));
    }
    highest = std::max(highest, value);
  }
  int64_t first = -1, count = 0, last = -1;
  float own = 0;
  for (size_t j = 0; j < bias.size(); ++j) {
    if (!(bias[j] > highest - kMaskedBelow)) continue;
    const int64_t key = key_positions[j];
    if (key < 0) return refuse("it shows keys that belong to no token");
    if (key > position) {
      return refuse(
          fmt::format("the token at position {} sees position {}, a later one; only "
                      "causal decoders can keep a KV cache",
                      position, key));
    }
    if (key == position) own = bias[j];
    first = first < 0 ? key : std::min(first, key);
    last = std::max(last, key);
    ++count;
  }
  if (last != position) {
    return refuse(fmt::format("the token at position {} does not see itself", position));
  }
  if (count != last - first + 1) {
    return refuse(fmt::format("the token at position {} sees {} of the positions {} to {}",
                              position, count, first, last));
  }
  longest_ = std::max(longest_, position + 1);
  return note_window(position, first) &&
         note_slopes(head, position, key_positions, bias, own, highest);
}

std::vector<double> MaskProof::slopes() const {
  std::vector<double> out;
  bool any = false;
  for (const auto& slope : slopes_) {
    out.push_back(slope.value_or(0.0));
    any = any || std::abs(out.back()) > 1e-9;
  }
  return any ? out : std::vector<double>{};
}

}  // namespace kvern::passes::token_form
