#include "plan/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "base/hash.h"
#include "plan/format.h"
#include "plan/program_wire.h"
#include "plan/sections.h"

namespace kvern::plan {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& problem) {
  throw Error(Code::kInvalidPlan, fmt::format("plan '{}': {}", file, problem));
}

constexpr const char* kDamaged = "the file is damaged or cut short; build it again";

Header read_header(std::span<const std::byte> bytes, const std::string& file, bool check_sums) {
  if (bytes.size() < sizeof(kMagic) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    fail(file, "does not begin like a plan; a model is built first: `kvern build MODEL -o PLAN`");
  }
  if (bytes.size() < sizeof(Header)) {
    fail(file, fmt::format("has {} bytes, fewer than a header; {}", bytes.size(), kDamaged));
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const uint64_t sum = hash64(bytes.first(offsetof(Header, header_sum)));
  if (check_sums && header.header_sum != sum) fail(file, fmt::format("header sum: {}", kDamaged));
  if (header.format_version != kFormatVersion) {
    throw Error(Code::kUnsupported,
                fmt::format("plan '{}' has format version {}; this Kvern reads version {}; build "
                            "it again from the model",
                            file, header.format_version, kFormatVersion));
  }
  if (header.file_bytes != bytes.size()) {
    fail(file, fmt::format("has {} bytes where its header says {}; {}", bytes.size(),
                           header.file_bytes, kDamaged));
  }
  if (header.num_sections != kNumSections) {
    fail(file, fmt::format("has {} sections; {} are wanted", header.num_sections, kNumSections));
  }
  for (const uint64_t reserved : header.reserved) {
    if (reserved != 0) fail(file, "a reserved header field is not 0");
  }
  return header;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Sections follow one another in the order of their kinds, with zeros between them, and fill the
// file.
std::vector<SectionEntry> read_table(std::span<const std::byte> bytes, const Header& header,
                                     const std::string& file, bool check_sums) {
  const uint64_t table_bytes = kNumSections * sizeof(SectionEntry);
  if (!extent_inside(sizeof(Header), table_bytes, bytes.size())) {
    fail(file, fmt::format("section table: {}", kDamaged));
  }
  const auto table_span = bytes.subspan(sizeof(Header), table_bytes);
  if (check_sums && hash64(table_span) != header.table_sum) {
    fail(file, fmt::format("section table sum: {}", kDamaged));
  }
  std::vector<SectionEntry> table(kNumSections);
  std::memcpy(table.data(), table_span.data(), table_bytes);
  uint64_t end = sizeof(Header) + table_bytes;
  for (uint32_t i = 0; i < kNumSections; ++i) {
    const SectionEntry& entry = table[i];
    const uint64_t alignment = i + 1 == kNumSections ? kWeightsAlignment : kSectionAlignment;
    if (entry.kind != i + 1 || entry.reserved != 0) {
      fail(file, fmt::format("section {} is of kind {}", i + 1, entry.kind));
    }
    const auto start = checked_align_up(end, alignment);
    if (!start || entry.offset != *start ||
        !extent_inside(entry.offset, entry.size_bytes, bytes.size())) {
      fail(file, fmt::format("section '{}' lies outside the file or out of place; {}",
                             section_name(static_cast<Section>(i + 1)), kDamaged));
    }
    if (!all_zero(bytes.subspan(end, entry.offset - end))) {
      fail(file, fmt::format("padding before section '{}' is not zero; {}",
                             section_name(static_cast<Section>(i + 1)), kDamaged));
    }
    end = entry.offset + entry.size_bytes;
  }
  if (end != bytes.size()) fail(file, fmt::format("{} bytes too many", bytes.size() - end));
  return table;
}

// Beyond any memory; below it no sum of offset and size overflows.
constexpr uint64_t kMaxSyntheticBytes = uint64_t{1} << 46;

// Weights of the file in its section, those that are drawn at load behind it; each in order.
void check_weight_extents(const Plan& plan, uint64_t weights_bytes, const std::string& file) {
  uint64_t end = 0, synthetic_end = weights_bytes;
  for (const Weight& weight : plan.weights) {
    uint64_t& at = weight.synthetic ? synthetic_end : end;
    const uint64_t limit = weight.synthetic ? kMaxSyntheticBytes : weights_bytes;
    if (weight.offset % kWeightAlignment != 0 || weight.offset < at ||
        !extent_inside(weight.offset, weight.size_bytes, limit)) {
      fail(file, fmt::format("weight '{}' ({} bytes at {}) does not lie in the {} bytes of weights",
                             weight.name, weight.size_bytes, weight.offset, limit));
    }
    at = weight.offset + weight.size_bytes;
  }
}

std::string weights_in(const Plan& plan, uint64_t begin, uint64_t end) {
  std::string names;
  for (const Weight& weight : plan.weights) {
    if (!weight.synthetic && weight.offset < end && weight.offset + weight.size_bytes > begin) {
      names += (names.empty() ? "" : ", ") + weight.name;
    }
  }
  return names.empty() ? "padding" : names;
}

}  // namespace

ParsedPlan parse_plan(std::span<const std::byte> bytes, const std::string& file, bool check_sums) {
  const Header header = read_header(bytes, file, check_sums);
  const std::vector<SectionEntry> table = read_table(bytes, header, file, check_sums);
  ParsedPlan parsed;
  for (const SectionEntry& entry : table) {
    const auto section = static_cast<Section>(entry.kind);
    const auto data = bytes.subspan(entry.offset, entry.size_bytes);
    if (section == Section::kWeights) {
      if (entry.sum != 0) fail(file, "the weights' table sum is not 0");
      parsed.weights = data;
      break;
    }
    if (check_sums && hash64(data) != entry.sum) {
      fail(file, fmt::format("section '{}' sum: {}", section_name(section), kDamaged));
    }
    read_section(section, data, file, parsed.plan);
    if (section == Section::kManifest) {
      parsed.manifest.assign(reinterpret_cast<const char*>(data.data()), data.size());
    }
    if (section == Section::kWeightSums) parsed.sums = data;
  }
  const uint64_t num_chunks = (parsed.weights.size() + kChunkBytes - 1) / kChunkBytes;
  if (parsed.sums.size() != num_chunks * sizeof(uint64_t)) {
    fail(file,
         fmt::format("{} bytes of weight sums for {} chunks", parsed.sums.size(), num_chunks));
  }
  check_weight_extents(parsed.plan, parsed.weights.size(), file);
  validate_program(parsed.plan.program, parsed.plan.weights.size());
  if (parsed.plan.device_kind != "cpu") {
    throw Error(Code::kUnsupported, fmt::format("plan '{}' was built for device '{}'; this Kvern "
                                                "runs plans for 'cpu'",
                                                file, parsed.plan.device_kind));
  }
  const uint64_t front = sizeof(Header) + kNumSections * sizeof(SectionEntry);
  parsed.fingerprint = hash64(bytes.first(front));
  return parsed;
}

uint64_t weights_bytes(const Plan& plan) {
  uint64_t end = 0;
  for (const Weight& weight : plan.weights) {
    end = std::max(end, weight.offset + weight.size_bytes);
  }
  return end;
}

bool is_synthetic(const Plan& plan) {
  return std::any_of(plan.weights.begin(), plan.weights.end(),
                     [](const Weight& weight) { return weight.synthetic; });
}

PlanFile::PlanFile(const std::string& path)
    : file_(path), parsed_(parse_plan(file_.bytes(), path, /*check_sums=*/true)) {}

std::span<const std::byte> PlanFile::weight(size_t index) const {
  const Weight& weight = parsed_.plan.weights.at(index);
  KVERN_CHECK(!weight.synthetic, "weight '{}' is not in the file", weight.name);
  return parsed_.weights.subspan(weight.offset, weight.size_bytes);
}

void PlanFile::verify_weights(const std::function<void(uint64_t, uint64_t)>& progress) const {
  const std::span<const std::byte> weights = parsed_.weights;
  for (uint64_t begin = 0, chunk = 0; begin < weights.size(); begin += kChunkBytes, ++chunk) {
    const uint64_t size = std::min<uint64_t>(kChunkBytes, weights.size() - begin);
    uint64_t wanted = 0;
    std::memcpy(&wanted, parsed_.sums.data() + chunk * sizeof(uint64_t), sizeof(wanted));
    if (hash64(weights.subspan(begin, size)) != wanted) {
      fail(file_.path(),
           fmt::format("weights are damaged between bytes {} and {} of their section, in {}; build "
                       "the plan again",
                       begin, begin + size, weights_in(parsed_.plan, begin, begin + size)));
    }
    if (progress) progress(begin + size, weights.size());
  }
}

}  // namespace kvern::plan
