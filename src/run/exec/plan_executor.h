// The Executor over a plan: weights, KV pools, arenas and the program's prepared instructions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "plan/reader.h"
#include "run/exec/executor.h"

namespace kvern::exec {

enum class WeightsMemory : uint8_t {
  kMap,   // read from the file's mapping: starts at once, shares memory between processes
  kCopy,  // anonymous memory in huge pages: safe when the file may change
};

struct PlanExecutorOptions {
  WeightsMemory weights_memory = WeightsMemory::kMap;
  bool plain_kernels = false;      // the oracle: the last implementation of every table
  std::vector<int32_t> num_pages;  // by KV group
  int32_t max_tokens = 512;        // of one step
  int32_t max_sequences = 8;
  int32_t max_wanted_rows = 64;
};

struct InstructionInfo {
  std::string source;          // the graph's value
  std::string implementation;  // "cpu.linear.avx512bf16"
  std::string numerics;
  std::string better;  // those before it in the table and why not: "cpu.linear.amx (needs AMX)"
};

class PlanExecutor final : public Executor {
 public:
  // Checks the program against the kernels, the weights and the KV layout, so that no operand can
  // reach outside its memory: Error(kInvalidPlan) naming the instruction otherwise. Throws
  // Error(kOutOfMemory) when KV pools and activations exceed the machine's memory. `file` is kept
  // alive.
  PlanExecutor(std::shared_ptr<const plan::PlanFile> file, std::shared_ptr<device::Device> device,
               const PlanExecutorOptions& options);
  ~PlanExecutor() override;

  step::StepResult run(const step::StepBatch& batch, const kv::Lease& lease) override;
  int64_t page_bytes(size_t kv_group) const override;
  void export_page(size_t kv_group, kv::PageId page, PageTokens tokens,
                   std::span<std::byte> to) override;
  void import_page(size_t kv_group, kv::PageId page, std::span<const std::byte> from) override;

  std::vector<InstructionInfo> instructions() const;
  int64_t kv_pool_bytes() const;
  int64_t arena_bytes() const;  // reserved for activations

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvern::exec
