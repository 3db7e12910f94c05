// The activations of a step: one arena for rows per token and one for wanted rows, as
// plan::BufferPlace describes them. Reserved once, for the largest step: nothing is allocated in a
// step, and pages that no step reaches cost no memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "device/device.h"
#include "kernels/impl.h"
#include "plan/program.h"

namespace kvern::exec {

class Arenas {
 public:
  explicit Arenas(const plan::Program& program) : program_(program) {}

  // Bytes of both arenas; nothing when they overflow.
  static std::optional<uint64_t> bytes_for(const plan::Program& program, int64_t max_tokens,
                                           int64_t max_wanted);
  // Throws Error(kOutOfMemory).
  void reserve(device::Device& device, int64_t max_tokens, int64_t max_wanted);
  // Rows of the step to come, at most those reserved. Buffers keep nothing from one step to the
  // next.
  void set_rows(int64_t tokens, int64_t wanted);
  // The buffer's rows of this step, from `offset_bytes` into each.
  kernels::Operand operand(const plan::BufferPlace& place, int64_t offset_bytes) const;
  int64_t rows(plan::RowCount kind) const { return arena(kind).rows; }
  int64_t size_bytes() const;

 private:
  struct Arena {
    device::Buffer memory;
    int64_t max_rows = 0;
    int64_t rows = 0;
    int64_t padded_rows = 0;
  };
  const Arena& arena(plan::RowCount kind) const { return arenas_[static_cast<size_t>(kind)]; }

  const plan::Program& program_;
  std::array<Arena, 2> arenas_;
};

}  // namespace kvern::exec
