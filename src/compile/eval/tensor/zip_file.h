// The entries of a zip archive in memory. The archive is hostile: every extent is checked.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvern::eval {

struct ZipEntry {
  std::string name;
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t crc32 = 0;
  uint64_t packed_bytes = 0;
  uint64_t unpacked_bytes = 0;
  uint64_t header_offset = 0;  // of its local header
};

class ZipFile {
 public:
  // `archive` outlives the object. Throws Error(kInvalidModel) naming `path` for what is no
  // archive.
  ZipFile(std::span<const std::byte> archive, std::string path);

  const std::vector<ZipEntry>& entries() const { return entries_; }

  // The bytes of an entry, which were compared with its sum. `owner` keeps them when they had to be
  // unpacked; without, they lie in the archive. Throws Error(kInvalidModel | kUnsupported).
  struct Content {
    std::span<const std::byte> bytes;
    std::shared_ptr<const std::vector<std::byte>> owner;
  };
  Content read(const ZipEntry& entry) const;

 private:
  [[noreturn]] void damaged(const std::string& problem) const;
  std::span<const std::byte> at(uint64_t offset, uint64_t length, const char* what) const;
  uint64_t number(uint64_t offset, int bytes) const;
  void read_directory();
  void check_overlaps() const;
  uint64_t read_entry(uint64_t offset);
  void read_long_numbers(std::span<const std::byte> extra, ZipEntry& entry) const;

  std::span<const std::byte> archive_;
  std::string path_;
  std::vector<ZipEntry> entries_;
};

uint32_t crc32_of(std::span<const std::byte> bytes);

}  // namespace kvern::eval
