// Runs ops as programs do: by family name, fields and untyped operands.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "kernels/family.h"

namespace kvern::testing {

inline constexpr float kUntouched = -12345.0f;

// [rows, dim] of f32 in rows `gap` elements further apart; what lies between is NaN in inputs and
// must stay as it is in outputs.
struct Rows {
  int64_t rows, dim, gap;
  std::vector<float> values;

  Rows(int64_t num_rows, int64_t row_dim, float fill, int64_t row_gap = 3)
      : rows(num_rows),
        dim(row_dim),
        gap(row_gap),
        values(static_cast<size_t>(num_rows * (row_dim + row_gap)), fill) {}

  static Rows random(int64_t rows, int64_t dim, uint32_t seed, int64_t gap = 3) {
    Rows out(rows, dim, std::numeric_limits<float>::quiet_NaN(), gap);
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < dim; ++i) out.at(r, i) = normal(engine);
    }
    return out;
  }
  float& at(int64_t r, int64_t i) { return values[static_cast<size_t>(r * (dim + gap) + i)]; }
  float at(int64_t r, int64_t i) const { return values[static_cast<size_t>(r * (dim + gap) + i)]; }
  // The first `count` rows, from `first` on.
  kernels::Operand operand(int64_t first, int64_t count) {
    return {reinterpret_cast<std::byte*>(&at(first, 0)), count, (dim + gap) * 4};
  }
  kernels::Operand operand() { return operand(0, rows); }
  bool gaps_untouched() const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = dim; i < dim + gap; ++i) {
        if (at(r, i) != kUntouched) return false;
      }
    }
    return true;
  }
};

inline bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

inline device::Stream& stream_of(int threads) {
  struct Cpu {
    std::unique_ptr<device::Device> device;
    std::unique_ptr<device::Stream> stream;
  };
  static std::map<int, Cpu> cpus;
  Cpu& cpu = cpus[threads];
  if (!cpu.device) {
    cpu.device = device::create_cpu_device(threads);
    cpu.stream = cpu.device->create_stream();
  }
  return *cpu.stream;
}

template <class Desc>
std::unique_ptr<kernels::PreparedOp> prepare(const char* family, const Desc& desc,
                                             const std::string& implementation) {
  const kernels::Family* found = kernels::find_family(family);
  if (found == nullptr) throw std::runtime_error(std::string("no family ") + family);
  kernels::Choice choice;
  choice.preferred = implementation;
  auto op = found->prepare(to_fields(desc), choice);
  if (op->implementation() != implementation) throw std::runtime_error("took another one");
  return op;
}

// Names of the implementations that this machine can run, best first.
template <class Desc>
std::vector<kernels::Candidate> runnable(const char* family, const Desc& desc) {
  std::vector<kernels::Candidate> out;
  for (auto& candidate : kernels::find_family(family)->candidates(to_fields(desc))) {
    if (candidate.verdict.supported) out.push_back(candidate);
  }
  return out;
}

inline void run_op(const kernels::PreparedOp& op, const std::vector<kernels::Operand>& inputs,
                   const std::vector<kernels::Operand>& outputs, int threads = 1,
                   const kernels::StepView* step = nullptr) {
  op.run({inputs, outputs, step, &stream_of(threads)});
}

}  // namespace kvern::testing
