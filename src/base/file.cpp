#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "kvern/error.h"

namespace kvern {
namespace {

[[noreturn]] void fail_io(const std::string& path, const char* action) {
  const int error = errno;
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  throw Error(code, fmt::format("cannot {} '{}': {}", action, path, std::strerror(error)));
}

// Closes the descriptor when the constructor that opened it throws.
struct FdCloser {
  int fd;
  ~FdCloser() {
    if (fd >= 0) ::close(fd);
  }
};

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_io(path, "write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

}  // namespace

// Without O_NONBLOCK the opening of a pipe would wait for somebody who writes into it.
MappedFile::MappedFile(const std::string& path)
    : MappedFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path) {}

MappedFile::MappedFile(int fd, const std::string& path) : path_(path) {
  const FdCloser file{fd};
  if (file.fd < 0) fail_io(path, "open");
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) fail_io(path, "inspect");
  if (!S_ISREG(info.st_mode)) {
    throw Error(Code::kUnsupported, fmt::format("'{}' is not a regular file", path));
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) fail_io(path, "map");
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  struct stat info {};
  // Renaming over a device node or a folder would destroy it.
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    throw Error(Code::kInvalidArgument,
                fmt::format("'{}' is not a regular file; name a file to write", path));
  }
  std::random_device random;
  // Mode 0666 less the umask, as any new file; mkstemp would give 0600.
  for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.{:06x}", path, random() & 0xffffffu);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail_io(path, "create");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(fd_, bytes, path_);
  position_ += bytes.size();
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_io(path_, "write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_io(path_, "sync");
  if (::close(fd_) != 0) {
    fd_ = -1;
    ::unlink(temporary_.c_str());
    fail_io(path_, "close");
  }
  fd_ = -1;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail_io(path_, "rename to");
  }
}

std::string read_text_file(const std::string& path, uint64_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes) {
    throw Error(Code::kInvalidArgument, fmt::format("'{}' has {} bytes; at most {} are read here",
                                                    path, file.bytes().size(), max_bytes));
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace kvern
