#include "compile/import/gguf/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/checked.h"
#include "compile/import/gguf/tensor_type.h"

namespace kvern::import::gguf {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 16;
constexpr uint32_t kMaxDims = 4;
// A tensor's entry is at least: name length, n_dims, one dim, type, offset.
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;
// A metadata entry is at least: key length, type, one byte.
constexpr uint64_t kMinMetadataBytes = 8 + 4 + 1;

uint32_t read_version(Cursor& cursor) {
  const std::string& file = cursor.file();
  if (cursor.remaining() < 8) {
    fail(file,
         fmt::format("{} bytes are no GGUF file; the header alone takes 24", cursor.remaining()));
  }
  const auto magic = cursor.number<uint32_t>("the magic");
  if (magic != kMagic) {
    fail(file, fmt::format("begins with 0x{:08x}, not with the magic 'GGUF'", magic));
  }
  const auto version = cursor.number<uint32_t>("the version");
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= 3) {
    unsupported(file,
                "is a big-endian GGUF file; Kvern reads little-endian ones. Convert the model on "
                "or for a little-endian machine");
  }
  if (version == 1) {
    unsupported(file, "is GGUF version 1; versions 2 and 3 are read. Convert the model again");
  }
  if (version != 2 && version != 3) {
    unsupported(file, fmt::format("is GGUF version {}; versions 2 and 3 are read", version));
  }
  return version;
}

uint64_t read_alignment(const Metadata& metadata, const std::string& file) {
  const uint64_t alignment = metadata.find_count("general.alignment").value_or(kDefaultAlignment);
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    fail(file, fmt::format("general.alignment is {}; a power of two up to {} is wanted", alignment,
                           kMaxAlignment));
  }
  return alignment;
}

// GGUF lists the innermost dimension first; Kvern's shapes have rows outermost.
Shape read_shape(Cursor& cursor, std::string_view name) {
  const auto num_dims = cursor.number<uint32_t>("a tensor's number of dimensions");
  if (num_dims < 1 || num_dims > kMaxDims) {
    fail(cursor.file(), fmt::format("tensor '{}' has {} dimensions; 1 to {} are defined",
                                    shown(name), num_dims, kMaxDims));
  }
  Shape shape;
  uint64_t elements = 1;
  for (uint32_t i = 0; i < num_dims; ++i) {
    const auto extent = cursor.number<uint64_t>("a tensor's dimension");
    const auto product = checked_mul(elements, extent);
    if (extent == 0 || !product || *product > static_cast<uint64_t>(INT64_MAX)) {
      fail(cursor.file(), fmt::format("tensor '{}': dimension {} is {}, which no tensor can have",
                                      shown(name), i, extent));
    }
    elements = *product;
    shape.push_back(static_cast<int64_t>(extent));
  }
  std::reverse(shape.begin(), shape.end());
  return shape;
}

ir::SourceType read_tensor_type(Cursor& cursor, std::string_view name) {
  const auto number = cursor.number<uint32_t>("a tensor's type");
  const TensorType* type = tensor_type(number);
  if (type == nullptr) {
    fail(cursor.file(), fmt::format("tensor '{}' has type number {}, which GGUF does not define",
                                    shown(name), number));
  }
  if (!type->source) {
    unsupported(cursor.file(),
                fmt::format("tensor '{}' has type {}, which Kvern does not decode; F32, F16, BF16, "
                            "Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K are. Quantise the "
                            "model to one of them",
                            shown(name), type->name));
  }
  return *type->source;
}

// Size in bytes, from whole blocks of rows.
uint64_t tensor_bytes(const ir::WeightSource& tensor, const std::string& file) {
  const ir::SourceTypeInfo& type = ir::source_type_info(tensor.type);
  const int64_t row = tensor.shape.back();
  if (row % type.block_elements != 0) {
    fail(file, fmt::format("tensor '{}' has rows of {} elements; {} needs a multiple of {}",
                           shown(tensor.name), row, type.name, type.block_elements));
  }
  const auto blocks = static_cast<uint64_t>(num_elements(tensor.shape) / type.block_elements);
  const auto bytes = checked_mul(blocks, static_cast<uint64_t>(type.block_bytes));
  if (!bytes) fail(file, fmt::format("tensor '{}' is too large", shown(tensor.name)));
  return *bytes;
}

ir::WeightSource read_tensor(Cursor& cursor, uint64_t alignment) {
  ir::WeightSource tensor;
  tensor.name = std::string(cursor.string("a tensor's name"));
  tensor.shape = read_shape(cursor, tensor.name);
  tensor.type = read_tensor_type(cursor, tensor.name);
  tensor.bytes = tensor_bytes(tensor, cursor.file());
  tensor.offset = cursor.number<uint64_t>("a tensor's offset");
  if (tensor.offset % alignment != 0) {
    fail(cursor.file(), fmt::format("tensor '{}' lies at offset {}, which is no multiple of {}",
                                    shown(tensor.name), tensor.offset, alignment));
  }
  return tensor;
}

// From offsets into the data part to offsets into the file.
void place(ir::WeightSource& tensor, uint64_t data_start, uint64_t file_bytes,
           const std::string& file) {
  const auto offset = checked_add(data_start, tensor.offset);
  if (!offset || !extent_inside(*offset, tensor.bytes, file_bytes)) {
    fail(file,
         fmt::format("tensor '{}' takes {} bytes at offset {} of the data at {}, but the "
                     "file has {} bytes; it is cut short or damaged, fetch it again",
                     shown(tensor.name), tensor.bytes, tensor.offset, data_start, file_bytes));
  }
  tensor.offset = *offset;
}

}  // namespace

bool looks_like_gguf(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return false;
  uint32_t magic = 0;
  std::memcpy(&magic, bytes.data(), 4);
  return magic == kMagic;
}

File read(std::span<const std::byte> bytes, const std::string& name) {
  Cursor cursor(bytes, name);
  File file;
  file.name = name;
  file.bytes = bytes;
  file.version = read_version(cursor);
  const uint64_t num_tensors = cursor.count(kMinTensorBytes, "the number of tensors");
  const uint64_t num_entries = cursor.count(kMinMetadataBytes, "the number of metadata entries");
  file.metadata = Metadata(cursor, bytes, num_entries);
  const uint64_t alignment = read_alignment(file.metadata, name);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    file.tensors.push_back(read_tensor(cursor, alignment));
  }
  std::unordered_set<std::string_view> names;
  for (const ir::WeightSource& tensor : file.tensors) {
    if (tensor.name.empty() || !names.insert(tensor.name).second) {
      fail(name, fmt::format("tensor name '{}' is empty or given twice", shown(tensor.name)));
    }
  }
  const auto data_start = checked_align_up(cursor.position(), alignment);
  if (!data_start) fail(name, "the tensor table ends beyond any address");
  uint64_t total_bytes = 0;  // each lies inside the file, so the sum of 2^32 of them cannot wrap
  for (ir::WeightSource& tensor : file.tensors) {
    place(tensor, *data_start, bytes.size(), name);
    total_bytes += tensor.bytes;
    if (total_bytes > bytes.size()) {
      fail(name, fmt::format("its tensors take more bytes than its {}: some overlap, the tensor "
                             "table is damaged",
                             bytes.size()));
    }
  }
  return file;
}

}  // namespace kvern::import::gguf
