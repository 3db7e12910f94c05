// The header of a safetensors file as a list, read in one go: a hundred megabytes of keys must cost
// no more than their own size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::import::hf {

struct HeaderEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<int64_t>> shape;         // up to kMaxHeaderList numbers
  std::optional<std::vector<int64_t>> data_offsets;  // the same
};

// What a list of the header can hold; longer ones keep one number more.
inline constexpr size_t kMaxHeaderList = 8;

// Without __metadata__, in the order of the file. Throws Error(kInvalidModel) naming `file`.
std::vector<HeaderEntry> read_safetensors_header(std::string_view text, const std::string& file);

}  // namespace kvern::import::hf
