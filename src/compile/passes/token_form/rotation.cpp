#include "compile/passes/token_form/rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvern::passes::token_form {
namespace {

double wrapped(double angle) {
  return std::remainder(angle, 2 * std::numbers::pi);
}

// Factors of an element by feature; a feature may be missing.
double factor_of(const Symbol& s, int32_t index) {
  double sum = 0;
  for (int i = 0; i < 2; ++i) {
    if (s.base[i] != kNothing && s.index[i] == index) sum += s.factor[i];
  }
  return sum;
}

bool only_uses(const Symbol& s, int32_t a, int32_t b) {
  for (int i = 0; i < 2; ++i) {
    if (s.base[i] != kNothing && s.index[i] != a && s.index[i] != b) return false;
  }
  return true;
}

// Tries one order of features: element 2i (or i) of the turned part pairs with 2i + 1 (i + half).
bool try_layout(std::span<const Symbol> row, const std::vector<int32_t>& features, int64_t rotary,
                bool interleaved, TurnedRow& out) {
  const int64_t half = rotary / 2;
  double amplitude = 0;
  std::vector<double> angles;
  for (int64_t i = 0; i < half; ++i) {
    const auto first = static_cast<size_t>(interleaved ? 2 * i : i);
    const auto second = static_cast<size_t>(interleaved ? 2 * i + 1 : i + half);
    const int32_t u = features[first], v = features[second];
    if (!only_uses(row[first], u, v) || !only_uses(row[second], u, v)) return false;
    const double cos = factor_of(row[first], u), sin = -factor_of(row[first], v);
    if (std::abs(factor_of(row[second], v) - cos) > 1e-5 * (1 + std::abs(cos)) ||
        std::abs(factor_of(row[second], u) - sin) > 1e-5 * (1 + std::abs(sin))) {
      return false;
    }
    const double size = std::hypot(cos, sin);
    if (i == 0) amplitude = size;
    if (std::abs(size - amplitude) > 1e-5 * amplitude) return false;
    angles.push_back(std::atan2(sin, cos));
  }
  for (auto d = static_cast<size_t>(rotary); d < row.size(); ++d) {
    if (row[d].base[1] != kNothing || row[d].index[0] != features[d]) return false;
    if (std::abs(row[d].factor[0] - amplitude) > 1e-5 * amplitude) return false;
  }
  out.features = features;
  out.factor = amplitude;
  out.rotary_dim = rotary;
  out.interleaved = interleaved;
  out.angles = std::move(angles);
  return true;
}

// Features of the turned part in ascending order, then the others as they come.
std::vector<int32_t> ascending(std::span<const Symbol> row, int64_t rotary) {
  std::vector<int32_t> turned;
  for (int64_t d = 0; d < rotary; ++d) {
    for (int i = 0; i < 2; ++i) turned.push_back(row[static_cast<size_t>(d)].index[i]);
  }
  std::sort(turned.begin(), turned.end());
  turned.erase(std::unique(turned.begin(), turned.end()), turned.end());
  for (auto d = static_cast<size_t>(rotary); d < row.size(); ++d) turned.push_back(row[d].index[0]);
  return turned;
}

std::vector<int32_t> evens_first(std::vector<int32_t> features, int64_t rotary) {
  std::vector<int32_t> out = features;
  for (int64_t i = 0; i < rotary / 2; ++i) {
    out[static_cast<size_t>(i)] = features[static_cast<size_t>(2 * i)];
    out[static_cast<size_t>(i + rotary / 2)] = features[static_cast<size_t>(2 * i + 1)];
  }
  return out;
}

bool decode_turned(std::span<const Symbol> row, int64_t rotary, TurnedRow& out) {
  const std::vector<int32_t> features = ascending(row, rotary);
  if (features.size() != row.size() || rotary % 2 != 0) return false;
  return try_layout(row, features, rotary, false, out) ||
         try_layout(row, features, rotary, true, out) ||
         try_layout(row, evens_first(features, rotary), rotary, false, out);
}

bool decode_plain(std::span<const Symbol> row, TurnedRow& out) {
  out.factor = row[0].factor[0];
  for (const Symbol& s : row) {
    if (s.factor[0] != row[0].factor[0]) return false;
    out.features.push_back(s.index[0]);
  }
  return true;
}

}  // namespace

std::optional<TurnedRow> decode_row(const Walk& walk, std::span<const Symbol> row,
                                    std::string* why) {
  TurnedRow out;
  out.base = row[0].base[0];
  int64_t rotary = 0;
  for (size_t d = 0; d < row.size(); ++d) {
    const Symbol& s = row[d];
    const bool one_base = s.base[0] == out.base && (s.base[1] == kNothing || s.base[1] == out.base);
    if (out.base < 0 || !one_base) {
      *why = "its elements are made of several values";
      return std::nullopt;
    }
    if (s.base[1] != kNothing) rotary = static_cast<int64_t>(d) + 1;
  }
  const bool fits = rotary > 0 ? decode_turned(row, rotary, out) : decode_plain(row, out);
  if (!fits) {
    *why = rotary > 0 ? "its rotation is none that Kvern knows: halves or neighbouring pairs of "
                        "the first part of a head, each pair turned by one angle and all "
                        "features times one number"
                      : "its features are scaled one by one after the last linear or norm";
    return std::nullopt;
  }
  const auto width = static_cast<int32_t>(walk.emit.bases[static_cast<size_t>(out.base)].width);
  out.token = out.features[0] / width;
  for (int32_t& feature : out.features) {
    if (feature / width != out.token) {
      *why = "a head mixes tokens";
      return std::nullopt;
    }
    feature %= width;
  }
  return out;
}

bool AngleTable::add(int64_t position, const std::vector<double>& angles) {
  const auto [at, is_new] = by_position_.emplace(position, angles);
  if (is_new) return true;
  if (at->second.size() != angles.size()) return false;
  for (size_t i = 0; i < angles.size(); ++i) {
    if (std::abs(wrapped(at->second[i] - angles[i])) > 1e-4) return false;
  }
  return true;
}

std::vector<double> AngleTable::frequencies(const std::vector<std::vector<double>>& candidates,
                                            std::string* why) const {
  if (by_position_.empty()) return {};
  const size_t half = by_position_.begin()->second.size();
  std::vector<double> measured(half, 0.0);
  int64_t pairs = 0;
  for (auto at = by_position_.begin(); std::next(at) != by_position_.end(); ++at) {
    const auto next = std::next(at);
    if (next->first != at->first + 1) continue;
    ++pairs;
    for (size_t i = 0; i < half; ++i) measured[i] += wrapped(next->second[i] - at->second[i]);
  }
  if (pairs == 0) {
    *why = "no two neighbouring positions were turned";
    return {};
  }
  for (double& f : measured) f /= static_cast<double>(pairs);
  const auto fits = [&](const std::vector<double>& f) {
    for (const auto& [position, angles] : by_position_) {
      for (size_t i = 0; i < half; ++i) {
        const double p = static_cast<double>(position);
        if (std::abs(wrapped(angles[i] - p * f[i])) > 2e-5 + 1e-6 * p) return false;
      }
    }
    return true;
  };
  const std::vector<double>* best = nullptr;
  double least = 1e-4;
  for (const std::vector<double>& candidate : candidates) {
    if (candidate.size() != half || !fits(candidate)) continue;
    double away = 0;
    for (size_t i = 0; i < half; ++i) away = std::max(away, std::abs(candidate[i] - measured[i]));
    if (away < least) {
      least = away;
      best = &candidate;
    }
  }
  if (best != nullptr) return *best;
  if (fits(measured)) {
    *why = "measured";
    return measured;
  }
  *why = "the angles of its rotation are not position times frequency";
  return {};
}

}  // namespace kvern::passes::token_form
