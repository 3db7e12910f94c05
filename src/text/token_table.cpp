#include "text/token_table.h"

#include <bit>

#include "base/hash.h"

namespace kvern::text {

TokenTable::TokenTable(std::span<const std::string> tokens, Duplicates duplicates) {
  starts_.reserve(tokens.size() + 1);
  starts_.push_back(0);
  for (const std::string& token : tokens) {
    bytes_ += token;
    starts_.push_back(bytes_.size());
  }
  slots_.assign(std::bit_ceil(2 * tokens.size() + 2), -1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    int32_t& slot = slots_[slot_of(tokens[i])];
    if (slot < 0 || duplicates == Duplicates::kLast) slot = static_cast<int32_t>(i);
  }
}

int32_t TokenTable::find(std::string_view text) const {
  return slots_[slot_of(text)];
}

// Where `text` is, or where it would go.
size_t TokenTable::slot_of(std::string_view wanted) const {
  const size_t mask = slots_.size() - 1;
  size_t at = static_cast<size_t>(hash64(wanted)) & mask;
  while (slots_[at] >= 0 && text(slots_[at]) != wanted) at = (at + 1) & mask;
  return at;
}

}  // namespace kvern::text
