// A context in a file: its tokens, and the pages that hold the first of them.
//
//   magic, version, lengths and sums (48 bytes) | header | pages
//
// The header names the plan by its fingerprint, the pages by their layout's hash and their numbers
// by the numerics ids that made them; header and pages carry an xxh3 sum each. Sums find damage,
// not malice: parsing trusts no number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "run/kv/group_pages.h"

namespace kvern::engine {

inline constexpr char kContextMagic[8] = {'K', 'V', 'E', 'R', 'N', 'C', 'T', 'X'};
inline constexpr uint32_t kContextVersion = 2;

// What contexts an engine can take.
struct ContextShape {
  std::string plan_name;  // for messages
  uint64_t plan_fingerprint = 0;
  uint64_t layout_hash = 0;
  uint64_t numerics_hash = 0;  // of the implementations that run, which differ between processors
  int64_t vocabulary_size = 0;
  int64_t max_context_length = 0;
  std::vector<kv::GroupConfig> groups;
  std::vector<int64_t> page_bytes;  // by KV group
};

struct SavedContext {
  std::vector<int32_t> ids;
  int64_t computed = 0;  // of ids: in the pages
  // Its pages were left out: they were computed with other numerics, and going on from them would
  // give other answers than computing them again.
  bool other_numerics = false;
  // By KV group: logical pages [first_page, first_page + num_pages). Earlier ones slid out of the
  // window.
  struct Pages {
    int64_t first_page = 0;
    int64_t num_pages = 0;
    std::span<const std::byte> bytes;
  };
  std::vector<Pages> pages;
};

// Which pages hold what a token behind the first `computed` sees.
std::vector<SavedContext::Pages> pages_of(const ContextShape& shape, int64_t computed);

// Throws Error(kIo | kNotFound | kInvalidArgument) as AtomicFile does; then nothing is left behind.
void write_saved_context(const std::string& path, const ContextShape& shape,
                         const SavedContext& context);

// The bytes of a file that can be a saved context, in memory of their own: no more is read than its
// header and `shape` allow. Throws as parse_saved_context, and Error(kNotFound | kIo).
std::vector<std::byte> read_saved_context(const std::string& path, const ContextShape& shape);

// `file` names the bytes in messages; the pages are spans of them. Throws Error(kInvalidPlan) for
// damage, Error(kInvalidArgument) for a context of another plan, Error(kUnsupported) for another
// version. check_sums = false is for fuzzing.
SavedContext parse_saved_context(std::span<const std::byte> bytes, const std::string& file,
                                 const ContextShape& shape, bool check_sums = true);

}  // namespace kvern::engine
