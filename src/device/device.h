// A device moves bytes and orders work; it does no math. CPU first; CUDA joins inside this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace kvern::device {

enum class Kind : uint8_t { kCpu = 0, kCuda = 1 };

// Memory of a device, freed with the object.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, size_t size_bytes, void (*release)(void*, size_t))
      : data_(data), size_bytes_(size_bytes), release_(release) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (release_ != nullptr && data_ != nullptr) release_(data_, size_bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(release_, other.release_);
  }
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  void (*release_)(void*, size_t) = nullptr;
};

// An order of work. Everything launched on one stream happens in launch order. The CPU's runs each
// launch to its end before the next.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Kind kind() const = 0;
  virtual void copy(void* to, const void* from, size_t size_bytes) = 0;
  virtual void fill_zero(void* to, size_t size_bytes) = 0;
  virtual void synchronize() = 0;
};

// A point in a stream that another stream or the host can wait for.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  virtual void wait(Stream& stream) = 0;
  virtual void synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Kind kind() const = 0;
  virtual std::string name() const = 0;            // "AMD EPYC (avx512-bf16)"
  virtual Buffer allocate(size_t size_bytes) = 0;  // 64-byte aligned; Error(kOutOfMemory)
  virtual std::unique_ptr<Stream> create_stream() = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  // Between record_begin and record_end launches are captured for replay under `key` where the
  // device can (CUDA graphs). begin is false where it cannot: the caller then launches as always.
  virtual bool record_begin(Stream& stream, uint64_t key) = 0;
  virtual void record_end(Stream& stream) = 0;
  virtual bool replay(Stream& stream, uint64_t key) = 0;
};

}  // namespace kvern::device
