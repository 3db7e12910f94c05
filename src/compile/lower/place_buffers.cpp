#include <algorithm>
#include <numeric>

#include "compile/lower/lower.h"

namespace kvern::lower {
namespace {

using plan::OperandKind;
using plan::OperandRef;
using plan::RowCount;

struct Life {
  int first = -1;  // instruction that writes it first
  int last = -1;   // instruction that touches it last

  void touch(int instruction) {
    if (first < 0) first = instruction;
    last = instruction;
  }
  bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
};

std::vector<Life> lives_of(const plan::Program& program) {
  std::vector<Life> lives(program.buffers.size());
  const auto touch = [&](const OperandRef& operand, int at) {
    if (operand.kind == OperandKind::kBuffer) lives[static_cast<size_t>(operand.index)].touch(at);
  };
  const int num_instructions = static_cast<int>(program.instructions.size());
  for (int i = 0; i < num_instructions; ++i) {
    for (const OperandRef& o : program.instructions[static_cast<size_t>(i)].inputs) touch(o, i);
    for (const OperandRef& o : program.instructions[static_cast<size_t>(i)].outputs) touch(o, i);
  }
  // What the caller reads lives to the end.
  for (const plan::Output& output : program.outputs) {
    lives[static_cast<size_t>(output.buffer)].touch(num_instructions);
  }
  return lives;
}

}  // namespace

// Largest first, each at the lowest offset that is free throughout its life: within a few percent
// of the best possible on decoder layers, whose buffers are few and alike.
void place_buffers(plan::Program& program) {
  const std::vector<Life> lives = lives_of(program);
  std::vector<size_t> order(program.buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return program.buffers[a].row_bytes > program.buffers[b].row_bytes;
  });
  std::vector<size_t> placed;
  for (const size_t index : order) {
    plan::BufferPlace& buffer = program.buffers[index];
    std::vector<std::pair<int64_t, int64_t>> taken;  // [begin, end) that the buffer cannot have
    for (const size_t other : placed) {
      const plan::BufferPlace& p = program.buffers[other];
      if (p.rows == buffer.rows && lives[other].overlaps(lives[index])) {
        taken.emplace_back(p.offset_per_row, p.offset_per_row + p.row_bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + buffer.row_bytes <= begin) break;
      offset = std::max(offset, end);
    }
    buffer.offset_per_row = offset;
    int64_t& arena = buffer.rows == RowCount::kTokens ? program.token_arena_bytes_per_row
                                                      : program.wanted_arena_bytes_per_row;
    arena = std::max(arena, offset + buffer.row_bytes);
    placed.push_back(index);
  }
}

}  // namespace kvern::lower
