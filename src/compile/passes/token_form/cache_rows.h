// Rows of keys and values: of a cache of the file, or of a new token.
#pragma once

#include "compile/passes/token_form/rotation.h"
#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// Where an element of a cache lies: its sequence, its position, and the rest.
struct PastPlace {
  int64_t batch = 0, position = 0, place = 0;
};
PastPlace past_place(const Base& base, const Shape& shape, int64_t batch_size, int64_t index);

struct CacheRow {
  bool is_past = false;
  int32_t past = -1;  // base
  int64_t batch = 0;
  int64_t position = -1;       // -1: constants, a row that no token wrote
  std::vector<int64_t> place;  // of a past row, per element
  double factor = 1;           // of a past row: attention reads it times this
  TurnedRow fresh;             // of a new token
  std::vector<Symbol> symbols;
};
// nullopt and `why` for what is neither.
std::optional<CacheRow> decode_cache_row(const Walk& walk, size_t world, std::vector<Symbol> row,
                                         const char* what, std::string* why);

}  // namespace kvern::passes::token_form
