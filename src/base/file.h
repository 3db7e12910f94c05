// Files read through a mapping, and written so that a reader sees the old one or the whole new one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvern {

// A read-only mapping of a file. Throws Error(kNotFound | kIo) naming the path, and
// Error(kUnsupported) for what is no regular file.
// A file that shrinks while mapped raises SIGBUS: copy weights where others may write.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  // The open file `fd`, which is closed in any case; `path` is for messages.
  MappedFile(int fd, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes `path` through a temporary file in the same folder, synced and renamed by commit().
// Without commit() nothing is left behind. Failures, a full disk included, are Error(kIo); a folder
// that is not there is Error(kNotFound), a `path` that is no regular file Error(kInvalidArgument).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(const void* data, size_t size) { write({static_cast<const std::byte*>(data), size}); }
  // Overwrites earlier bytes; the position for write() stays at the end.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  uint64_t position() const { return position_; }
  // Where the bytes are until commit(): `path` with six hexadecimal digits behind it.
  const std::string& temporary_path() const { return temporary_; }
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  uint64_t position_ = 0;
};

std::string read_text_file(const std::string& path, uint64_t max_bytes);

}  // namespace kvern
