#include "plan/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/check.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "plan/format.h"
#include "plan/sections.h"

namespace kvern::plan {
namespace {

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
};

std::unique_ptr<std::byte, AlignedDelete> allocate_aligned(size_t size) {
  return std::unique_ptr<std::byte, AlignedDelete>(
      static_cast<std::byte*>(::operator new (size, std::align_val_t{64})));
}

// Writes bytes and sums them in chunks of 4 MiB.
class SummedWriter {
 public:
  explicit SummedWriter(AtomicFile& file) : file_(file), hasher_(std::make_unique<Hasher>()) {}

  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    while (!bytes.empty()) {
      const size_t part = std::min<size_t>(bytes.size(), kChunkBytes - in_chunk_);
      hasher_->update(bytes.first(part));
      in_chunk_ += part;
      if (in_chunk_ == kChunkBytes) finish_chunk();
      bytes = bytes.subspan(part);
    }
  }
  std::vector<uint64_t> finish() {
    if (in_chunk_ > 0) finish_chunk();
    return std::move(sums_);
  }

 private:
  void finish_chunk() {
    sums_.push_back(hasher_->digest());
    hasher_ = std::make_unique<Hasher>();
    in_chunk_ = 0;
  }
  AtomicFile& file_;
  std::unique_ptr<Hasher> hasher_;
  uint64_t in_chunk_ = 0;
  std::vector<uint64_t> sums_;
};

// Those that the file holds first, so that the others take no room there. Returns the file's bytes.
uint64_t place_weights(Plan& plan) {
  uint64_t offset = 0, in_file = 0;
  for (const bool synthetic : {false, true}) {
    for (Weight& weight : plan.weights) {
      if (weight.synthetic != synthetic) continue;
      weight.offset = offset;
      offset = static_cast<uint64_t>(
          align_up(static_cast<int64_t>(offset + weight.size_bytes), kWeightAlignment));
    }
    if (!synthetic) in_file = offset;
  }
  return in_file;
}

std::vector<uint64_t> write_weights(AtomicFile& file, const Plan& plan, uint64_t total,
                                    const WriteHooks& hooks) {
  SummedWriter out(file);
  static constexpr std::byte kZeros[kWeightAlignment] = {};
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const Weight& weight = plan.weights[i];
    if (weight.synthetic) continue;
    const auto data = allocate_aligned(weight.size_bytes);
    hooks.weight(i, {data.get(), weight.size_bytes});
    out.write({data.get(), weight.size_bytes});
    const uint64_t end = weight.offset + weight.size_bytes;
    const auto next = static_cast<uint64_t>(align_up(static_cast<int64_t>(end), kWeightAlignment));
    out.write({kZeros, next - end});
    if (hooks.progress) hooks.progress(next, total);
  }
  return out.finish();
}

}  // namespace

void write_plan(const std::string& path, Plan& plan, const WriteHooks& hooks) {
  const uint64_t weights_bytes = place_weights(plan);
  const uint64_t num_chunks = (weights_bytes + kChunkBytes - 1) / kChunkBytes;

  // Everything in front of the weights is laid out in memory; only the sums come later.
  std::vector<SectionEntry> table(kNumSections);
  const uint64_t table_bytes = kNumSections * sizeof(SectionEntry);
  std::vector<char> front(sizeof(Header) + table_bytes);
  for (uint32_t i = 0; i < kNumSections; ++i) {
    const auto section = static_cast<Section>(i + 1);
    std::vector<char> bytes;
    if (section == Section::kWeightSums)
      bytes.resize(num_chunks * sizeof(uint64_t));
    else if (section != Section::kWeights)
      bytes = write_section(section, plan);
    const uint64_t alignment = section == Section::kWeights ? kWeightsAlignment : kSectionAlignment;
    front.resize(*checked_align_up(front.size(), alignment));
    const uint64_t size = section == Section::kWeights ? weights_bytes : bytes.size();
    table[i] = {i + 1, 0, front.size(), size, hash64(std::as_bytes(std::span(bytes)))};
    front.insert(front.end(), bytes.begin(), bytes.end());
  }

  AtomicFile file(path);
  file.write(front.data(), front.size());
  const std::vector<uint64_t> sums = write_weights(file, plan, weights_bytes, hooks);
  KVERN_CHECK(sums.size() == num_chunks);

  SectionEntry& sums_entry = table[static_cast<uint32_t>(Section::kWeightSums) - 1];
  sums_entry.sum = hash64(std::as_bytes(std::span(sums)));
  table.back().sum = 0;
  if (hooks.final_report) {
    const std::string report = hooks.final_report();
    KVERN_CHECK(report.size() == plan.import_report.size());
    SectionEntry& entry = table[static_cast<uint32_t>(Section::kImportReport) - 1];
    entry.sum = hash64(report);
    file.write_at(entry.offset, std::as_bytes(std::span(report)));
    plan.import_report = report;
  }
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.format_version = kFormatVersion;
  header.num_sections = kNumSections;
  header.file_bytes = file.position();
  header.table_sum = hash64(std::as_bytes(std::span(table)));
  header.header_sum =
      hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_sum)));
  file.write_at(sums_entry.offset, std::as_bytes(std::span(sums)));
  file.write_at(sizeof(Header), std::as_bytes(std::span(table)));
  file.write_at(0, std::as_bytes(std::span(&header, 1)));
  if (hooks.check) hooks.check(file.temporary_path());
  file.commit();
}

}  // namespace kvern::plan
