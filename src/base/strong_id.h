// Integers that cannot be mixed up: StrongId<struct PageTag> and StrongId<struct SeqTag> share no
// conversion.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace kvern {

template <class Tag, class Int = int32_t>
struct StrongId {
  Int value = -1;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Int v) : value(v) {}
  constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

}  // namespace kvern

template <class Tag, class Int>
struct std::hash<kvern::StrongId<Tag, Int>> {
  size_t operator()(const kvern::StrongId<Tag, Int>& id) const {
    return std::hash<Int>()(id.value);
  }
};
