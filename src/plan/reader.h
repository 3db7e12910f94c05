// Reads and checks a plan file. Header, section table and every section but the weights are summed
// and parsed at once; the weights' sums are checked by verify_weights.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "plan/plan.h"

namespace kvern::plan {

// A plan parsed in place: the spans point into the bytes it was read from.
struct ParsedPlan {
  Plan plan;
  std::string manifest;  // JSON text
  std::span<const std::byte> weights;
  std::span<const std::byte> sums;  // u64 per 4 MiB of weights
  uint64_t fingerprint = 0;
};

// `file` names the bytes in messages. check_sums = false is for fuzzing, which cannot guess a sum.
ParsedPlan parse_plan(std::span<const std::byte> bytes, const std::string& file, bool check_sums);

class PlanFile {
 public:
  // Maps and checks the file. Throws Error(kNotFound | kIo | kInvalidPlan | kUnsupported); the last
  // for another format version or device kind. Allocates no more than the file's size.
  explicit PlanFile(const std::string& path);

  const Plan& plan() const { return parsed_.plan; }
  // Data of plan().weights[index], inside the mapping.
  std::span<const std::byte> weight(size_t index) const;
  std::span<const std::byte> weights() const { return parsed_.weights; }
  // Sums every 4 MiB of the weights. Throws Error(kInvalidPlan) naming the first wrong chunk and
  // the weights in it. progress(done_bytes, total_bytes) may be empty.
  void verify_weights(const std::function<void(uint64_t, uint64_t)>& progress) const;
  // Of header and section table, which hold the sums of all else: identifies the plan.
  uint64_t fingerprint() const { return parsed_.fingerprint; }
  uint64_t file_bytes() const { return file_.bytes().size(); }
  const std::string& path() const { return file_.path(); }
  // The manifest as JSON text.
  const std::string& manifest() const { return parsed_.manifest; }

 private:
  MappedFile file_;
  ParsedPlan parsed_;
};

}  // namespace kvern::plan
