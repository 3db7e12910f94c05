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

bool MaskProof::on_slope(size_t head, const Row& row, int64_t key, float bias) const {
  if (!slopes_[head]) return false;
  const double wanted = row.own + *slopes_[head] * static_cast<double>(key - row.position);
  // f32 holds slope * position to seven digits.
  const double tolerance =
      1e-6 * (1 + std::abs(*slopes_[head]) * static_cast<double>(row.position));
  return std::abs(bias - wanted) <= tolerance;
}

bool MaskProof::is_hidden(const Row& row, int64_t key, float bias) const {
  if (bias > row.highest - kMaskedBelow) return false;
  return !on_slope(row.head < 0 ? 0 : static_cast<size_t>(row.head), row, key, bias);
}

bool MaskProof::note_slopes(const Row& row, std::span<const int64_t> key_positions,
                            std::span<const float> bias) {
  for (size_t j = 0; j < bias.size(); ++j) {
    const int64_t key = key_positions[j];
    if (key == row.position || is_hidden(row, key, bias[j])) continue;
    const size_t first = row.head < 0 ? 0 : static_cast<size_t>(row.head);
    const size_t last = row.head < 0 ? slopes_.size() : first + 1;
    for (size_t h = first; h < last; ++h) {
      if (!slopes_[h]) {
        slopes_[h] =
            (static_cast<double>(bias[j]) - row.own) / static_cast<double>(key - row.position);
      }
      if (!on_slope(h, row, key, bias[j])) {
        return refuse(
            fmt::format("its values are no mask and not proportional to the distance of "
                        "tokens (ALiBi): {} at distance {}",
                        bias[j] - row.own, row.position - key));
      }
    }
  }
  return true;
}

bool MaskProof::add_row(int64_t head, int64_t position, std::span<const int64_t> key_positions,
                        std::span<const float> bias) {
  Row row{head, position, 0, -std::numeric_limits<float>::infinity()};
  for (size_t j = 0; j < bias.size(); ++j) {
    if (std::isnan(bias[j])) {
      return refuse(fmt::format("for the token at position {} its mask is NaN", position));
    }
    row.highest = std::max(row.highest, bias[j]);
    if (key_positions[j] == position) row.own = bias[j];
  }
  int64_t first = -1, count = 0, last = -1;
  for (size_t j = 0; j < bias.size(); ++j) {
    const int64_t key = key_positions[j];
    if (is_hidden(row, key, bias[j])) continue;
    if (key < 0) return refuse("it shows keys that belong to no token");
    if (key > position) {
      return refuse(
          fmt::format("the token at position {} sees position {}, a later one; only "
                      "causal decoders can keep a KV cache",
                      position, key));
    }
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
  return note_window(position, first) && note_slopes(row, key_positions, bias);
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
