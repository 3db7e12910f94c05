#include "compile/import/hf/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "base/checked.h"
#include "compile/import/hf/config.h"
#include "compile/import/hf/safetensors_header.h"

namespace kvern::import::hf {
namespace {

constexpr uint64_t kLengthBytes = 8;
// The format's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDims = kMaxHeaderList;

struct Type {
  const char* name;
  uint64_t bits;
  std::optional<ir::SourceType> source;  // nothing: defined by the format, not read
};
constexpr Type kTypes[] = {
    {"F32", 32, ir::SourceType::kF32},
    {"F16", 16, ir::SourceType::kF16},
    {"BF16", 16, ir::SourceType::kBf16},
    {"F64", 64, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"C64", 64, std::nullopt},
    {"I64", 64, std::nullopt},
    {"U64", 64, std::nullopt},
    {"I32", 32, std::nullopt},
    {"U32", 32, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"I8", 8, std::nullopt},
    {"U8", 8, std::nullopt},
    {"BOOL", 8, std::nullopt},
};

struct Reader {
  std::span<const std::byte> bytes;
  const std::string& file;
  int32_t file_index;
  uint64_t data_start = 0;

  [[noreturn]] void fail_tensor(const std::string& name, const std::string& problem) const {
    fail(file, fmt::format("tensor '{}' {}", name.substr(0, 120), problem));
  }

  const Type& type(const HeaderEntry& entry) const {
    const std::string dtype = entry.dtype.value_or("");
    for (const Type& each : kTypes) {
      if (dtype == each.name) return each;
    }
    fail_tensor(entry.name, fmt::format("has dtype '{}', which safetensors does not define",
                                        dtype.substr(0, 20)));
  }

  Shape shape(const HeaderEntry& entry) const {
    const auto& dims = entry.shape;
    if (!dims || dims->size() > kMaxDims) {
      fail_tensor(entry.name, fmt::format("has no shape of up to {} dimensions", kMaxDims));
    }
    uint64_t elements = 1;
    for (const int64_t dim : *dims) {
      const auto product = checked_mul(elements, static_cast<uint64_t>(dim));
      if (dim < 1 || !product || *product > uint64_t{INT64_MAX}) {
        fail_tensor(entry.name, fmt::format("has dimension {}, which no tensor can have", dim));
      }
      elements = *product;
    }
    return dims->empty() ? Shape{1} : Shape(dims->begin(), dims->end());
  }

  // Fills offset and bytes.
  void place(const HeaderEntry& entry, const Type& type, ir::WeightSource& tensor) const {
    const auto& offsets = entry.data_offsets;
    if (!offsets || offsets->size() != 2 || (*offsets)[0] < 0 || (*offsets)[1] < (*offsets)[0]) {
      fail_tensor(tensor.name, "has no data_offsets from one byte to a later one");
    }
    const auto begin = static_cast<uint64_t>((*offsets)[0]);
    const uint64_t length = static_cast<uint64_t>((*offsets)[1]) - begin;
    const uint64_t data_bytes = bytes.size() - data_start;
    if (!extent_inside(begin, length, data_bytes)) {
      fail_tensor(tensor.name, fmt::format("takes {} bytes at {} of {}; the file is cut short or "
                                           "damaged, fetch it again",
                                           length, begin, data_bytes));
    }
    const auto bits = checked_mul(static_cast<uint64_t>(num_elements(tensor.shape)), type.bits);
    if (!bits || *bits % 8 != 0 || *bits / 8 != length) {
      fail_tensor(tensor.name, fmt::format("takes {} bytes, but {} of {} do not fill them", length,
                                           to_string(tensor.shape), type.name));
    }
    tensor.offset = data_start + begin;
    tensor.bytes = length;
  }

  ir::WeightSource tensor(const HeaderEntry& entry, const Type& type) const {
    ir::WeightSource out;
    out.name = entry.name;
    out.file = file_index;
    out.type = type.source.value_or(ir::SourceType::kF32);
    out.shape = shape(entry);
    place(entry, type, out);
    return out;
  }
};

uint64_t header_bytes(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    fail(file, fmt::format("{} bytes are no safetensors file", bytes.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    fail(file, fmt::format("has a header of {} bytes; {} at most", length, kMaxHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    fail(file, fmt::format("has a header of {} bytes, but {} bytes in all; it is cut short, fetch "
                           "it again",
                           length, bytes.size()));
  }
  return length;
}

// Tensors fill the data one after the other: what overlaps or leaves a gap is damage.
void check_cover(const Reader& reader, const SafetensorsFile& file) {
  std::vector<const ir::WeightSource*> all;
  for (const auto* list : {&file.tensors, &file.foreign}) {
    for (const ir::WeightSource& tensor : *list) all.push_back(&tensor);
  }
  std::ranges::sort(all, {}, &ir::WeightSource::offset);
  uint64_t at = reader.data_start;
  for (const ir::WeightSource* tensor : all) {
    if (tensor->offset != at) {
      reader.fail_tensor(tensor->name, fmt::format("begins at byte {}, where {} was expected; "
                                                   "tensors overlap or leave a gap",
                                                   tensor->offset, at));
    }
    at += tensor->bytes;
  }
  if (at != reader.bytes.size()) {
    fail(reader.file,
         fmt::format("its tensors end at byte {} of {}; it is damaged", at, reader.bytes.size()));
  }
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'};
}

SafetensorsFile read_safetensors(std::span<const std::byte> bytes, const std::string& name,
                                 int32_t file_index) {
  const uint64_t length = header_bytes(bytes, name);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const std::vector<HeaderEntry> header = read_safetensors_header(text, name);
  const Reader reader{bytes, name, file_index, kLengthBytes + length};
  SafetensorsFile out;
  std::unordered_set<std::string_view> names;
  for (const HeaderEntry& entry : header) {
    if (!names.insert(entry.name).second) reader.fail_tensor(entry.name, "is described twice");
    const Type& type = reader.type(entry);
    ir::WeightSource tensor = reader.tensor(entry, type);
    if (!type.source) out.foreign_types.emplace_back(type.name);
    (type.source ? out.tensors : out.foreign).push_back(std::move(tensor));
  }
  check_cover(reader, out);
  std::ranges::sort(out.tensors, {}, &ir::WeightSource::offset);
  return out;
}

}  // namespace kvern::import::hf
