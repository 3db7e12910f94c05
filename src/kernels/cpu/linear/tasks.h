// How a linear divides its tiles among the threads when there are few tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"

namespace kvern::kernels::cpu {

// Tasks of `unit` tiles as long as every thread gets as many, then of two tiles, so that nine times
// four tiles on two threads are not five against four.
struct FewTokensTasks {
  int64_t unit;
  int64_t units;
  int64_t tasks;

  FewTokensTasks(int64_t tiles, int threads)
      : unit(4 * std::clamp<int64_t>(tiles / (32 * threads), 1, 16)),
        units(tiles / unit / threads * threads),
        tasks(units + ceil_div(tiles - units * unit, 2)) {}
  int64_t first(int64_t task) const {
    return task < units ? task * unit : units * unit + (task - units) * 2;
  }
};

}  // namespace kvern::kernels::cpu
