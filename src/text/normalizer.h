// A model's normalisers, in their order: text to text.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_step.h"

namespace kvern::text {

// Where a piece of text stands in the text given to encode(); kToken: it is a verbatim token's own.
enum class Place : uint8_t { kStart, kInside, kToken };

class Normalizer {
 public:
  // Throws Error(kInvalidModel) for a step that is none of a normaliser or is damaged.
  explicit Normalizer(std::span<const Step> steps);
  ~Normalizer();
  Normalizer(Normalizer&&) noexcept;
  Normalizer& operator=(Normalizer&&) noexcept;

  bool empty() const { return steps_.empty(); }
  // Bytes that are not UTF-8 stay as they are.
  std::string apply(std::string_view text, Place place) const;

 private:
  struct Compiled;
  std::vector<Compiled> steps_;
};

}  // namespace kvern::text
