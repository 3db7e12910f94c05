#include "compile/import/onnx/tensor.h"

#include <fmt/format.h>
#include <onnx_messages.pb.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/checked.h"
#include "compile/import/onnx/wire.h"

namespace kvern::import::onnx {
namespace {

using ir::ElementType;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

static_assert(std::endian::native == std::endian::little);  // as ONNX's bytes are

constexpr uint64_t kMaxAlignedCopyBytes = 1 << 20;
constexpr int kMaxRank = 64;

// Numbers of TensorProto's data fields.
constexpr uint32_t kFloatData = 4;
constexpr uint32_t kInt32Data = 5;
constexpr uint32_t kInt64Data = 7;
constexpr uint32_t kRawData = 9;
constexpr uint32_t kDoubleData = 10;
constexpr uint32_t kUint64Data = 11;

const char* field_name(uint32_t field) {
  switch (field) {
    case kFloatData:
      return "float_data";
    case kInt32Data:
      return "int32_data";
    case kInt64Data:
      return "int64_data";
    case kDoubleData:
      return "double_data";
    case kUint64Data:
      return "uint64_data";
    default:
      return "raw_data";
  }
}

uint32_t field_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
    case ElementType::kComplex64:
      return kFloatData;
    case ElementType::kDouble:
    case ElementType::kComplex128:
      return kDoubleData;
    case ElementType::kInt64:
      return kInt64Data;
    case ElementType::kUint32:
    case ElementType::kUint64:
      return kUint64Data;
    default:
      return kInt32Data;
  }
}

bool four_bit(ElementType type) {
  return type == ElementType::kUint4 || type == ElementType::kInt4 ||
         type == ElementType::kFloat4E2M1;
}

// What a tensor says of itself.
struct Head {
  std::string who;
  ElementType type = ElementType::kUndefined;
  Shape shape;
  uint64_t count = 1;
  uint64_t element_bytes = 0;  // as stored; 4-bit elements: one byte for two
  uint64_t stored_bytes = 0;
};

Head read_head(const onnx_proto::TensorProto& tensor, const std::string& name) {
  Head head;
  head.who = fmt::format("tensor '{}'", shown(name));
  const int32_t type = tensor.data_type();
  head.type = static_cast<ElementType>(type);
  if (type <= 0 || type > static_cast<int32_t>(ElementType::kFloat4E2M1) ||
      ir::element_bytes(head.type) == 0) {
    unsupported(fmt::format("{} is of element type {} ({}); numbers and bools are supported",
                            head.who, type,
                            type == 8   ? "string"
                            : type == 0 ? "undefined"
                                        : "unknown"));
  }
  if (tensor.has_segment()) unsupported(fmt::format("{} is stored in segments", head.who));
  if (tensor.dims_size() > kMaxRank) {
    fail(fmt::format("{} has {} dims; {} at most", head.who, tensor.dims_size(), kMaxRank));
  }
  head.shape.assign(tensor.dims().begin(), tensor.dims().end());
  for (const int64_t dim : head.shape) {
    const auto count = dim < 0 ? std::nullopt : checked_mul(head.count, static_cast<uint64_t>(dim));
    if (!count || *count > (uint64_t{1} << 56)) {
      fail(fmt::format("{} has impossible dims {}", head.who, to_string(head.shape)));
    }
    head.count = *count;
  }
  head.element_bytes = ir::element_bytes(head.type);
  head.stored_bytes = four_bit(head.type) ? (head.count + 1) / 2 : head.count * head.element_bytes;
  return head;
}

// Bytes of the elements as the file has them, and who keeps them.
struct Stored {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::optional<ir::ArrayOrigin> origin;
};

struct Buffer {
  std::shared_ptr<std::byte[]> bytes;
  uint64_t size = 0;
  Buffer(uint64_t size_bytes, Budget& budget) : size(size_bytes) {
    budget.charge(size_bytes);
    bytes.reset(new std::byte[std::max<uint64_t>(size_bytes, 1)]);
  }
  Stored stored(std::optional<ir::ArrayOrigin> origin = {}) const {
    return {{bytes.get(), size}, bytes, std::move(origin)};
  }
};

[[noreturn]] void wrong_size(const Head& head, uint64_t got, uint64_t wanted, const char* what,
                             const char* where) {
  fail(fmt::format("{} ({}, {}) has {} {} in {}, its dims and type want {}", head.who,
                   ir::element_type_name(head.type), to_string(head.shape), got, what, where,
                   wanted));
}

using Extents = std::vector<std::span<const std::byte>>;

// Numbers of four or eight bytes, in several stretches.
Stored join_fixed(const Extents& extents, const Head& head, Budget& budget) {
  const Buffer out(head.stored_bytes, budget);
  uint64_t at = 0;
  for (const auto& extent : extents) {
    if (extent.size() > out.size - at) {
      wrong_size(head, at + extent.size(), out.size, "bytes", "its elements");
    }
    std::memcpy(out.bytes.get() + at, extent.data(), extent.size());
    at += extent.size();
  }
  if (at != out.size) wrong_size(head, at, out.size, "bytes", "its elements");
  return out.stored();
}

// The low bytes of each varint; signed ones are written in two's complement.
Stored unpack_varints(const Extents& extents, const Head& head, Budget& budget) {
  const uint64_t width = four_bit(head.type) ? 1 : head.element_bytes;
  const uint64_t wanted = head.stored_bytes / width;
  uint64_t found = 0;
  for (const auto& extent : extents) {
    found += static_cast<uint64_t>(std::ranges::count_if(
        extent, [](std::byte byte) { return static_cast<uint8_t>(byte) < 0x80; }));
  }
  if (found != wanted) {
    wrong_size(head, found, wanted, "elements", field_name(field_of(head.type)));
  }
  const Buffer out(head.stored_bytes, budget);
  std::byte* to = out.bytes.get();
  const std::byte* const end = to + out.size;
  for (auto extent : extents) {
    uint64_t value = 0;
    while (next_packed_varint(extent, value)) {
      if (to == end) fail(fmt::format("{} has damaged elements", head.who));
      std::memcpy(to, &value, width);
      to += width;
    }
  }
  return out.stored();
}

template <class List>
Stored copy_unpacked(const List& list, const Head& head, uint64_t width, Budget& budget) {
  const auto found = static_cast<uint64_t>(list.size());
  if (found != head.stored_bytes / width) {
    wrong_size(head, found, head.stored_bytes / width, "elements", field_name(field_of(head.type)));
  }
  const Buffer out(head.stored_bytes, budget);
  std::byte* to = out.bytes.get();
  for (const auto value : list) {
    std::memcpy(to, &value, width);  // little-endian: the low bytes
    to += width;
  }
  return out.stored();
}

Stored read_unpacked(const onnx_proto::TensorProto& tensor, const Head& head, Budget& budget) {
  const uint64_t width = four_bit(head.type) ? 1 : head.element_bytes;
  switch (field_of(head.type)) {
    case kFloatData:
      return copy_unpacked(tensor.float_data(), head, sizeof(float), budget);
    case kDoubleData:
      return copy_unpacked(tensor.double_data(), head, sizeof(double), budget);
    case kInt64Data:
      return copy_unpacked(tensor.int64_data(), head, width, budget);
    case kUint64Data:
      return copy_unpacked(tensor.uint64_data(), head, width, budget);
    default:
      return copy_unpacked(tensor.int32_data(), head, width, budget);
  }
}

Stored unpack_nibbles(const Stored& packed, const Head& head, Budget& budget) {
  const Buffer out(head.count, budget);
  for (uint64_t i = 0; i < head.count; ++i) {
    const auto pair = static_cast<uint8_t>(packed.bytes[i / 2]);
    auto value = static_cast<uint8_t>(i % 2 == 0 ? pair & 15 : pair >> 4);
    if (head.type == ElementType::kInt4 && value >= 8) value = static_cast<uint8_t>(value - 16);
    out.bytes[i] = static_cast<std::byte>(value);
  }
  return out.stored(packed.origin);
}

// Bools must be 0 or 1 for whoever reads them.
Stored tidy_bools(const Stored& stored, Budget& budget) {
  if (std::ranges::all_of(stored.bytes, [](std::byte b) { return static_cast<uint8_t>(b) < 2; })) {
    return stored;
  }
  const Buffer out(stored.bytes.size(), budget);
  std::ranges::transform(stored.bytes, out.bytes.get(),
                         [](std::byte b) { return std::byte{b != std::byte{0}}; });
  return out.stored(stored.origin);
}

Stored aligned(const Stored& stored, uint64_t alignment, Budget& budget) {
  const auto address = reinterpret_cast<uintptr_t>(stored.bytes.data());
  const uint64_t size = stored.bytes.size();
  if (address % alignment == 0 || (size > kMaxAlignedCopyBytes && !kSanitized)) return stored;
  const Buffer out(size, budget);
  std::memcpy(out.bytes.get(), stored.bytes.data(), size);
  return out.stored(stored.origin);
}

// Packed elements and raw_data, which stayed in the file.
Stored read_payload(const onnx_proto::TensorProto& tensor, const Head& head, const SourceFile& file,
                    const std::string& name, Budget& budget) {
  Extents extents;
  uint32_t field = 0;
  for (const auto& extent : tensor.payload()) {
    KVERN_CHECK(extent_inside(extent.offset(), extent.length(), file.bytes.size()), "payload");
    if (extent.length() == 0) continue;
    if (field != 0 && (field != extent.field() || field == kRawData)) {
      fail(fmt::format("{} has elements in both {} and {}", head.who, field_name(field),
                       field_name(extent.field())));
    }
    field = extent.field();
    extents.push_back(file.bytes.subspan(extent.offset(), extent.length()));
  }
  if (field == 0) {
    if (head.stored_bytes != 0) wrong_size(head, 0, head.count, "elements", "the file");
    return {};
  }
  if (field != kRawData && field != field_of(head.type)) {
    fail(fmt::format("{} is {} and has its elements in {}; {} or raw_data is their place", head.who,
                     ir::element_type_name(head.type), field_name(field),
                     field_name(field_of(head.type))));
  }
  const bool fixed = field == kRawData || field == kFloatData || field == kDoubleData;
  if (!fixed) return unpack_varints(extents, head, budget);
  if (extents.size() > 1) return join_fixed(extents, head, budget);
  if (extents[0].size() != head.stored_bytes) {
    wrong_size(head, extents[0].size(), head.stored_bytes, "bytes", field_name(field));
  }
  const auto offset = static_cast<uint64_t>(extents[0].data() - file.bytes.data());
  return {extents[0], file.owner, ir::ArrayOrigin{name, 0, offset}};
}

bool has_unpacked(const onnx_proto::TensorProto& tensor) {
  return tensor.float_data_size() + tensor.int32_data_size() + tensor.int64_data_size() +
             tensor.double_data_size() + tensor.uint64_data_size() >
         0;
}

}  // namespace

ir::Array TensorReader::read(const onnx_proto::TensorProto& tensor, const std::string& fallback) {
  const std::string& name = tensor.name().empty() ? fallback : tensor.name();
  const Head head = read_head(tensor, name);
  Stored stored;
  if (tensor.data_location() == 1) {
    if (tensor.payload_size() > 0 || has_unpacked(tensor)) {
      fail(fmt::format("{} is external and has elements in the file too", head.who));
    }
    FileExtent extent = external_.find(tensor, head.stored_bytes);
    stored.bytes = extent.file->bytes().subspan(extent.offset, extent.length);
    stored.owner = std::move(extent.file);
    stored.origin = ir::ArrayOrigin{name, extent.index, extent.offset};
  } else if (has_unpacked(tensor)) {
    if (tensor.payload_size() > 0) {
      fail(fmt::format("{} has packed elements and others", head.who));
    }
    stored = read_unpacked(tensor, head, budget_);
  } else {
    stored = read_payload(tensor, head, file_, name, budget_);
  }
  if (four_bit(head.type)) {
    stored = unpack_nibbles(stored, head, budget_);
  } else if (head.type == ElementType::kBool) {
    stored = tidy_bools(stored, budget_);
  }
  stored = aligned(stored, std::min<uint64_t>(head.element_bytes, 8), budget_);
  return ir::Array::view(head.type, head.shape, stored.bytes, std::move(stored.owner),
                         std::move(stored.origin));
}

}  // namespace kvern::import::onnx
