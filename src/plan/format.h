// The bytes of a plan file. All numbers little-endian.
//
//   header (64 bytes) | section table | sections, each 64-byte aligned | weights, 4096-byte aligned
//
// The header carries its own sum and the table's; the table carries every section's. Padding is
// zero and checked. The weights have no sum of their own: section kWeightSums holds one per 4 MiB.
#pragma once

#include <cstdint>

namespace kvern::plan {

inline constexpr char kMagic[8] = {'K', 'V', 'E', 'R', 'N', 'P', 'L', 'N'};
inline constexpr uint64_t kSectionAlignment = 64;
inline constexpr uint64_t kWeightsAlignment = 4096;
inline constexpr uint64_t kWeightAlignment = 64;
inline constexpr uint64_t kChunkBytes = 4 << 20;

enum class Section : uint32_t {
  kManifest = 1,
  kProgram = 2,
  kKvLayout = 3,
  kProfile = 4,
  kTactics = 5,
  kText = 6,
  kGeneration = 7,
  kImportReport = 8,
  kGraph = 9,
  kRecipes = 10,
  kWeightTable = 11,
  kWeightSums = 12,
  kWeights = 13,
};
inline constexpr uint32_t kNumSections = 13;  // all present, in this order

struct Header {
  char magic[8];
  uint32_t format_version;
  uint32_t num_sections;
  uint64_t file_bytes;
  uint64_t table_sum;    // xxh3 of the section table
  uint64_t reserved[3];  // 0
  uint64_t header_sum;   // xxh3 of the bytes before it
};
static_assert(sizeof(Header) == 64);

struct SectionEntry {
  uint32_t kind;
  uint32_t reserved;  // 0
  uint64_t offset;
  uint64_t size_bytes;
  uint64_t sum;  // xxh3; 0 for the weights
};
static_assert(sizeof(SectionEntry) == 32);

}  // namespace kvern::plan
