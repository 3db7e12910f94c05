#include "run/exec/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"

namespace kvern::exec {
namespace {

constexpr int64_t kRowMultiple = 16;

int64_t padded(int64_t rows) {
  return align_up(std::max<int64_t>(rows, 1), kRowMultiple);
}

std::optional<uint64_t> bytes_of(int64_t rows, int64_t bytes_per_row) {
  return checked_mul(static_cast<uint64_t>(padded(rows)), static_cast<uint64_t>(bytes_per_row));
}

}  // namespace

std::optional<uint64_t> Arenas::bytes_for(const plan::Program& program, int64_t max_tokens,
                                          int64_t max_wanted) {
  const auto tokens = bytes_of(max_tokens, program.token_arena_bytes_per_row);
  const auto wanted = bytes_of(max_wanted, program.wanted_arena_bytes_per_row);
  if (!tokens || !wanted) return std::nullopt;
  return checked_add(*tokens, *wanted);
}

void Arenas::reserve(device::Device& device, int64_t max_tokens, int64_t max_wanted) {
  if (!bytes_for(program_, max_tokens, max_wanted)) {
    throw Error(Code::kOutOfMemory,
                fmt::format("activations of {} tokens do not fit any memory", max_tokens));
  }
  arenas_[0].memory = device.allocate(*bytes_of(max_tokens, program_.token_arena_bytes_per_row));
  arenas_[0].max_rows = max_tokens;
  arenas_[1].memory = device.allocate(*bytes_of(max_wanted, program_.wanted_arena_bytes_per_row));
  arenas_[1].max_rows = max_wanted;
}

void Arenas::set_rows(int64_t tokens, int64_t wanted) {
  KVERN_CHECK(tokens <= arenas_[0].max_rows && wanted <= arenas_[1].max_rows,
              "{} tokens and {} wanted rows, room for {} and {}", tokens, wanted,
              arenas_[0].max_rows, arenas_[1].max_rows);
  arenas_[0].rows = tokens;
  arenas_[1].rows = wanted;
  for (Arena& arena : arenas_) arena.padded_rows = padded(arena.rows);
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
