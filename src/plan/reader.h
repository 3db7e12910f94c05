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

class PlanFile {
 public:
  // Maps and checks the file. Throws Error(kNotFound | kIo | kInvalidPlan | kUnsupported); the last
  // for another format version or device kind. Allocates no more than the file's size.
  explicit PlanFile(const std::string& path);

  const Plan& plan() const { return plan_; }
  // Data of plan().weights[index], inside the mapping.
  std::span<const std::byte> weight(size_t index) const;
  std::span<const std::byte> weights() const { return weights_; }
  // Sums every 4 MiB of the weights. Throws Error(kInvalidPlan) naming the first wrong chunk and
  // the weights in it. progress(done_bytes, total_bytes) may be empty.
  void verify_weights(const std::function<void(uint64_t, uint64_t)>& progress) const;
  // Of everything but the weights' bytes, plus the weights' sums: identifies the plan.
  uint64_t fingerprint() const { return fingerprint_; }
  uint64_t file_bytes() const { return file_.bytes().size(); }
  // The manifest as JSON text.
  const std::string& manifest() const { return manifest_; }

 private:
  MappedFile file_;
  Plan plan_;
  std::string manifest_;
  std::span<const std::byte> weights_;
  std::span<const std::byte> sums_;
  uint64_t fingerprint_ = 0;
};

}  // namespace kvern::plan
