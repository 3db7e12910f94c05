#include "run/exec/arena.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"

namespace kvern::exec {
namespace {

constexpr int64_t kRowMultiple = 16;

}  // namespace

void Arenas::set_rows(int64_t tokens, int64_t wanted) {
  resize(arenas_[0], tokens, program_.token_arena_bytes_per_row);
  resize(arenas_[1], wanted, program_.wanted_arena_bytes_per_row);
}

void Arenas::resize(Arena& arena, int64_t rows, int64_t bytes_per_row) {
  arena.rows = rows;
  arena.padded_rows = align_up(std::max<int64_t>(rows, 1), kRowMultiple);
  const auto bytes =
      checked_mul(static_cast<uint64_t>(arena.padded_rows), static_cast<uint64_t>(bytes_per_row));
  KVERN_CHECK(bytes.has_value(), "{} rows of {} bytes", arena.padded_rows, bytes_per_row);
  if (*bytes <= arena.memory.size_bytes()) return;
  arena.memory = device::Buffer();
  arena.memory = device_.allocate(*bytes);
}

kernels::Operand Arenas::operand(const plan::BufferPlace& place, int64_t offset_bytes) const {
  const Arena& from = arena(place.rows);
  return {from.memory.data() + place.offset_per_row * from.padded_rows + offset_bytes, from.rows,
          place.row_bytes};
}

int64_t Arenas::size_bytes() const {
  return static_cast<int64_t>(arenas_[0].memory.size_bytes() + arenas_[1].memory.size_bytes());
}

}  // namespace kvern::exec
