// The activations of a step: one arena for rows per token and one for wanted rows, as
// plan::BufferPlace describes them. They grow with the largest step so far.
#pragma once

#include <array>
#include <cstdint>

#include "device/device.h"
#include "kernels/impl.h"
#include "plan/program.h"

namespace kvern::exec {

class Arenas {
 public:
  Arenas(const plan::Program& program, device::Device& device)
      : program_(program), device_(device) {}

  // Rows of the step to come. Buffers keep nothing from one step to the next.
  void set_rows(int64_t tokens, int64_t wanted);
  // The buffer's rows of this step, from `offset_bytes` into each.
  kernels::Operand operand(const plan::BufferPlace& place, int64_t offset_bytes) const;
  int64_t rows(plan::RowCount kind) const { return arena(kind).rows; }
  int64_t size_bytes() const;

 private:
  struct Arena {
    device::Buffer memory;
    int64_t rows = 0;
    int64_t padded_rows = 0;
  };
  const Arena& arena(plan::RowCount kind) const { return arenas_[static_cast<size_t>(kind)]; }
  void resize(Arena& arena, int64_t rows, int64_t bytes_per_row);

  const plan::Program& program_;
  device::Device& device_;
  std::array<Arena, 2> arenas_;
};

}  // namespace kvern::exec
