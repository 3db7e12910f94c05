// Runs a program block by block: every op is one loop over the block, so that its cost is that of
// vectors, not of a switch per element, and the stack stays in L1.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/map/impls.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kBlock = 256;

// One thread's stack. Inputs and copies are pushed as pointers. A result goes to the slot of its
// place on the stack, which nothing below points to: copies point downwards only.
class Machine {
 public:
  Machine(const MapDesc& desc, const MapArgs& args, const MapLoops& loops)
      : desc_(desc), args_(args), loops_(loops) {}

  void run_row(int64_t row) {
    for (int64_t begin = 0; begin < desc_.dim; begin += kBlock) {
      run_block(row, begin, std::min(kBlock, desc_.dim - begin));
    }
  }

 private:
  void run_block(int64_t row, int64_t begin, int64_t count) {
    float* y = args_.y + row * args_.y_stride + begin;
    const float* stack[kMaxMapDepth + 2] = {};  // so that three operands can always be named
    int depth = 0;
    for (size_t i = 0; i < desc_.code.size(); ++i) {
      const auto op = static_cast<MapOp>(desc_.code[i] & 255);
      const auto index = static_cast<size_t>(desc_.code[i] >> 8);
      if (op == MapOp::kInput) {
        stack[depth] = input(index, row, begin, count, slots_[depth]);
      } else if (op == MapOp::kCopy) {
        stack[depth] = stack[depth - 1 - static_cast<int>(index)];
      } else if (op == MapOp::kConstant) {
        std::fill_n(slots_[depth], count, static_cast<float>(desc_.constants[index]));
        stack[depth] = slots_[depth];
      } else {
        depth -= map_arity(op);
        float* to = i + 1 == desc_.code.size() ? y : slots_[depth];
        loops_[static_cast<size_t>(op)](stack[depth], stack[depth + 1], stack[depth + 2], to,
                                        count);
        stack[depth] = to;
      }
      ++depth;
    }
    if (stack[0] != y) std::memmove(y, stack[0], static_cast<size_t>(count) * sizeof(float));
  }

  // Elements [begin, begin + count) of the input as wide as y; in `buffer` unless they lie so.
  const float* input(size_t index, int64_t row, int64_t begin, int64_t count, float* buffer) const {
    const MapArgs::Input& from = args_.inputs[index];
    const float* x = from.data + row * from.stride;
    const int64_t width = desc_.widths[index];
    if (width == desc_.dim) return x + begin;
    if (width == 1) {
      std::fill_n(buffer, count, x[0]);
      return buffer;
    }
    const bool repeats = desc_.vectors[index] != 0;
    const int64_t period = repeats ? width : desc_.dim / width;
    for (int64_t done = 0; done < count;) {
      const int64_t at = (begin + done) % period;
      const int64_t run = std::min(period - at, count - done);
      if (repeats)
        std::copy_n(x + at, run, buffer + done);
      else
        std::fill_n(buffer + done, run, x[(begin + done) / period]);
      done += run;
    }
    return buffer;
  }

  const MapDesc& desc_;
  const MapArgs& args_;
  const MapLoops& loops_;
  alignas(64) float slots_[kMaxMapDepth][kBlock];
};

// A thousandth of a nanosecond per element, roughly: memory speed, or libm's.
int64_t cost(const MapDesc& desc) {
  int64_t total = 0;
  for (const int64_t step : desc.code) {
    total += has_vector_form(static_cast<MapOp>(step & 255)) ? 120 : 8'000;
  }
  return total;
}

}  // namespace

// Moves 4 * (sum of widths + dim) bytes per row; of short programs that is the time.
void run_map(const MapDesc& desc, const MapArgs& args, const MapLoops& loops) {
  for_rows(args.stream, args.rows, desc.dim * cost(desc) / 1000, [&](int64_t begin, int64_t end) {
    Machine machine(desc, args, loops);
    for (int64_t row = begin; row < end; ++row) machine.run_row(row);
  });
}

}  // namespace kvern::kernels::cpu
