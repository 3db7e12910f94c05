#include "tensor/quant_format.h"

#include <fmt/format.h>

namespace kvern {

std::string to_string(const QuantFormat& format) {
  if (!format.quantised()) return std::string(dtype_name(format.storage));
  return fmt::format("{} {} {}{}", dtype_name(format.storage),
                     format.group == 0 ? std::string("row") : fmt::format("g{}", format.group),
                     dtype_name(format.scale), format.has_min ? " min" : "");
}

double bytes_per_element(const QuantFormat& format) {
  double bits = dtype_bits(format.storage);
  if (format.quantised() && format.group > 0) {
    bits += dtype_bits(format.scale) * (format.has_min ? 2.0 : 1.0) / format.group;
  }
  return bits / 8;
}

}  // namespace kvern
