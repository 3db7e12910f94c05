// After PKWARE's APPNOTE.TXT 6.3.10: the directory at the end is what counts.
#include "compile/eval/tensor/zip_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kMostEntries = 100'000;
constexpr uint64_t kMostEntryBytes = uint64_t{4} << 30;
// Deflate packs at most 1,032 times; more is a lie, so that memory is bounded by what is there.
constexpr uint64_t kMostPacked = 1040;

}  // namespace

uint32_t crc32_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

ZipFile::ZipFile(std::span<const std::byte> archive, std::string path)
    : archive_(archive), path_(std::move(path)) {
  read_directory();
}

void ZipFile::damaged(const std::string& problem) const {
  throw Error(Code::kInvalidModel, fmt::format("'{}' is no npz file that can be read: {}; write "
                                               "it with numpy.savez",
                                               path_, problem));
}

std::span<const std::byte> ZipFile::at(uint64_t offset, uint64_t length, const char* what) const {
  if (!extent_inside(offset, length, archive_.size())) {
    damaged(fmt::format("{} reaches beyond its end", what));
  }
  return archive_.subspan(offset, length);
}

uint64_t ZipFile::number(uint64_t offset, int bytes) const {
  uint64_t out = 0;
  std::memcpy(&out, at(offset, static_cast<uint64_t>(bytes), "a header").data(),
              static_cast<size_t>(bytes));
  return out;
}

void ZipFile::read_directory() {
  if (archive_.size() < kEndBytes) damaged("it is too short");
  // Behind the end record a comment of up to 64 KiB may follow.
  uint64_t end = archive_.size() - kEndBytes;
  const uint64_t first = end > 0xffff ? end - 0xffff : 0;
  while (number(end, 4) != 0x06054b50) {
    if (end == first) damaged("there is no directory at its end");
    --end;
  }
  uint64_t count = number(end + 10, 2), offset = number(end + 16, 4);
  if ((count == 0xffff || offset == 0xffffffff) && end >= 20 && number(end - 20, 4) == 0x07064b50) {
    const uint64_t long_end = number(end - 20 + 8, 8);
    at(long_end, 56, "the directory's long record");
    if (number(long_end, 4) != 0x06064b50) damaged("the directory's long record is not there");
    count = number(long_end + 32, 8);
    offset = number(long_end + 48, 8);
  }
  if (count > kMostEntries) damaged(fmt::format("{} entries", count));
  for (uint64_t i = 0; i < count; ++i) offset = read_entry(offset);
  check_overlaps();
}

// Entries that share bytes unpack to more than the archive can hold.
void ZipFile::check_overlaps() const {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& entry : entries_) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const ZipEntry* a, const ZipEntry* b) {
    return a->header_offset < b->header_offset;
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const ZipEntry& before = *sorted[i - 1];
    const uint64_t distance = sorted[i]->header_offset - before.header_offset;
    if (distance < 30 || distance - 30 < before.packed_bytes) {
      damaged(fmt::format("'{}' and '{}' overlap", before.name, sorted[i]->name));
    }
  }
}

uint64_t ZipFile::read_entry(uint64_t offset) {
  at(offset, 46, "the directory");
  if (number(offset, 4) != 0x02014b50) damaged("an entry of the directory is not there");
  if ((number(offset + 8, 2) & 1) != 0) damaged("an entry is encrypted");
  ZipEntry entry;
  entry.method = static_cast<uint16_t>(number(offset + 10, 2));
  entry.crc32 = static_cast<uint32_t>(number(offset + 16, 4));
  entry.packed_bytes = number(offset + 20, 4);
  entry.unpacked_bytes = number(offset + 24, 4);
  entry.header_offset = number(offset + 42, 4);
  const uint64_t name_bytes = number(offset + 28, 2), extra_bytes = number(offset + 30, 2);
  const auto name = at(offset + 46, name_bytes, "a name");
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  read_long_numbers(at(offset + 46 + name_bytes, extra_bytes, "an entry"), entry);
  entries_.push_back(std::move(entry));
  return offset + 46 + name_bytes + extra_bytes + number(offset + 32, 2);
}

// The numbers that are all ones are in an extra field of 64 bits each, in this order.
void ZipFile::read_long_numbers(std::span<const std::byte> extra, ZipEntry& entry) const {
  while (extra.size() >= 4) {
    uint16_t head[2];
    std::memcpy(head, extra.data(), 4);
    extra = extra.subspan(4);
    if (head[1] > extra.size()) damaged("an extra field reaches beyond its entry");
    std::span<const std::byte> field = extra.first(head[1]);
    extra = extra.subspan(head[1]);
    if (head[0] != 1) continue;
    for (uint64_t* value : {&entry.unpacked_bytes, &entry.packed_bytes, &entry.header_offset}) {
      if (*value != 0xffffffff) continue;
      if (field.size() < 8) damaged("a long number is missing");
      std::memcpy(value, field.data(), 8);
      field = field.subspan(8);
    }
  }
}

ZipFile::Content ZipFile::read(const ZipEntry& entry) const {
  const uint64_t header = entry.header_offset;
  at(header, 30, "an entry's header");
  if (number(header, 4) != 0x04034b50) damaged(fmt::format("'{}' has no header", entry.name));
  const uint64_t begin = header + 30 + number(header + 26, 2) + number(header + 28, 2);
  const auto packed = at(begin, entry.packed_bytes, "an entry");
  Content out;
  if (entry.method == 0) {
    if (entry.packed_bytes != entry.unpacked_bytes) {
      damaged(fmt::format("'{}' is stored and has two sizes", entry.name));
    }
    out.bytes = packed;
  } else if (entry.method == 8) {
    if (entry.unpacked_bytes > kMostEntryBytes ||
        entry.unpacked_bytes / kMostPacked > entry.packed_bytes) {
      damaged(
          fmt::format("'{}' says that it unpacks to {} bytes", entry.name, entry.unpacked_bytes));
    }
    auto unpacked = std::make_shared<std::vector<std::byte>>(entry.unpacked_bytes);
    z_stream stream{};
    if (inflateInit2(&stream, -15) != Z_OK) throw std::bad_alloc();
    int status = Z_OK;
    uint64_t read = 0, written = 0;
    while (status == Z_OK) {
      const uint64_t left = packed.size() - read, room = unpacked->size() - written;
      const auto in = static_cast<uInt>(std::min<uint64_t>(left, 1u << 30));
      const auto space = static_cast<uInt>(std::min<uint64_t>(room, 1u << 30));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
      stream.avail_in = in;
      stream.next_out = reinterpret_cast<Bytef*>(unpacked->data() + written);
      stream.avail_out = space;
      status = inflate(&stream, Z_NO_FLUSH);
      read += in - stream.avail_in;
      written += space - stream.avail_out;
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END || written != unpacked->size()) {
      damaged(fmt::format("'{}' does not unpack to {} bytes", entry.name, entry.unpacked_bytes));
    }
    out.bytes = *unpacked;
    out.owner = std::move(unpacked);
  } else {
    throw Error(Code::kUnsupported,
                fmt::format("'{}': entry '{}' is compressed by method {}; numpy.savez and "
                            "savez_compressed write 0 and 8",
                            path_, entry.name, entry.method));
  }
  if (crc32_of(out.bytes) != entry.crc32) {
    damaged(fmt::format("the sum of '{}' is another", entry.name));
  }
  return out;
}

}  // namespace kvern::eval
