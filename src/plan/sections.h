// Plan <-> the bytes of its sections, weights excepted.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/format.h"
#include "plan/plan.h"

namespace kvern::plan {

// JSON for people and tools; what the runtime needs of it is read back by read_manifest.
std::string write_manifest(const Plan& plan);

// The section's bytes. Not for kWeightSums and kWeights.
std::vector<char> write_section(Section section, const Plan& plan);
// Fills the part of `plan` that the section holds. Throws Error(kInvalidPlan) naming file and
// section.
void read_section(Section section, std::span<const std::byte> bytes, const std::string& file,
                  Plan& plan);
const char* section_name(Section section);

}  // namespace kvern::plan
