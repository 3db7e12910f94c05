// After numpy.lib.format: a magic number, a Python dict of three keys, the elements.
#include "compile/eval/tensor/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/checked.h"
#include "base/file.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/small_float.h"
#include "compile/eval/tensor/strided.h"
#include "compile/eval/tensor/zip_file.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

struct NpyType {
  ElementType type;
  const char* name;  // without the byte order
};

constexpr NpyType kNpyTypes[] = {
    {ElementType::kFloat, "f4"},  {ElementType::kDouble, "f8"}, {ElementType::kFloat16, "f2"},
    {ElementType::kInt64, "i8"},  {ElementType::kInt32, "i4"},  {ElementType::kInt16, "i2"},
    {ElementType::kInt8, "i1"},   {ElementType::kUint64, "u8"}, {ElementType::kUint32, "u4"},
    {ElementType::kUint16, "u2"}, {ElementType::kUint8, "u1"},  {ElementType::kBool, "b1"},
};

[[noreturn]] void damaged(const std::string& who, const std::string& problem) {
  throw Error(Code::kInvalidModel,
              fmt::format("{} is no npy array that can be read: {}", who, problem));
}

ElementType type_of(const std::string& who, std::string_view descr) {
  if (descr.size() == 3 && (descr[0] == '<' || descr[0] == '|')) {
    for (const NpyType& row : kNpyTypes) {
      if (descr.substr(1) == row.name) return row.type;
    }
  }
  throw Error(Code::kUnsupported,
              fmt::format("{} has elements '{}'; little-endian numbers and bools are wanted "
                          "(bfloat16 has no npy type: give float32)",
                          who, descr));
}

// The text of a header's value: of 'shape': (2, 3), it is "(2, 3)".
std::string_view value_of(const std::string& who, std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) damaged(who, fmt::format("its header has no '{}'", key));
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const size_t end = rest.starts_with('(')    ? rest.find(')')
                     : rest.starts_with('\'') ? rest.find('\'', 1)
                                              : rest.find_first_of(",}") - 1;
  if (end >= rest.size()) damaged(who, fmt::format("'{}' has no end", key));
  return rest.substr(0, end + 1);
}

Shape shape_of(const std::string& who, std::string_view text) {
  Shape out;
  if (text.size() < 2 || text.front() != '(') damaged(who, "its shape is no tuple");
  text = text.substr(1, text.size() - 2);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
    if (text.empty()) return out;
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0 || out.size() == 64) damaged(who, "its shape is no shape");
    out.push_back(dim);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
}

struct Header {
  ElementType type;
  Shape shape;
  bool columns_first;
  size_t elements_at;
};

Header parse_header(std::span<const std::byte> bytes, const std::string& who) {
  if (bytes.size() < 12 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) {
    damaged(who, "it does not begin as one");
  }
  const auto version = std::to_integer<int>(bytes[6]);
  uint32_t length = 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  const size_t begin = 8 + length_bytes;
  if (version > 3 || !extent_inside(begin, length, bytes.size())) {
    damaged(who, fmt::format("version {} with a header of {} bytes", version, length));
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + begin, length);
  std::string_view descr = value_of(who, header, "descr");
  if (descr.size() >= 2) descr = descr.substr(1, descr.size() - 2);
  return {type_of(who, descr), shape_of(who, value_of(who, header, "shape")),
          value_of(who, header, "fortran_order") == "True", begin + length};
}

std::string npy_header(const Array& array) {
  const NpyType* found = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                      [&](const NpyType& row) { return row.type == array.type(); });
  if (found == std::end(kNpyTypes)) {
    throw Error(Code::kUnsupported,
                fmt::format("{} has no npy type", ir::element_type_name(array.type())));
  }
  std::string shape;
  for (const int64_t dim : array.shape()) shape += fmt::format("{}, ", dim);
  if (array.rank() > 1) shape.resize(shape.size() - 2);
  std::string dict = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 ir::element_bytes(array.type()) == 1 ? '|' : '<', found->name,
                                 array.rank() == 1 ? shape.substr(0, shape.size() - 1) : shape);
  // Elements begin at a multiple of 64 bytes.
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(dict.size());
  out.append(reinterpret_cast<const char*>(&length), 2);
  return out + dict;
}

// As something that npy has a type for.
Array storable(const std::string& name, const Array& array, std::vector<std::string>& notes) {
  const auto note = [&](const char* as) {
    notes.push_back(fmt::format("'{}' is {}, which npy has no type for: written as {}", name,
                                ir::element_type_name(array.type()), as));
  };
  if (array.type() == ElementType::kBfloat16) return note("float32"), widened(array);
  if (array.type() == ElementType::kInt4) return note("int8"), array.retyped(ElementType::kInt8);
  if (array.type() == ElementType::kUint4) {
    return note("uint8"), array.retyped(ElementType::kUint8);
  }
  const SmallFloat* small = small_float_of(array.type());
  if (small == nullptr) return array;
  note("float32");
  Array out(ElementType::kFloat, array.shape());
  const auto from = array.as<uint8_t>();
  const auto to = out.mutable_as<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = decode(*small, from[i]);
  return out;
}

template <class... Numbers>
void append(std::string& out, Numbers... numbers) {
  (out.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
}

// What a local header and an entry of the directory have in common.
void append_common(std::string& out, uint32_t sum, uint32_t size, const std::string& name) {
  constexpr uint16_t kVersion = 20, kFlags = 0x800 /* names are UTF-8 */, kStored = 0;
  constexpr uint16_t kTime = 0, kDate = 0x21;  // 1980-01-01: the same bytes every time
  append(out, kVersion, kFlags, kStored, kTime, kDate, sum, size, size,
         static_cast<uint16_t>(name.size()), uint16_t{0});
}

}  // namespace

Array parse_npy(std::span<const std::byte> bytes, const std::string& who) {
  const Header header = parse_header(bytes, who);
  const std::span<const std::byte> elements = bytes.subspan(header.elements_at);
  uint64_t wanted = ir::element_bytes(header.type);
  for (const int64_t dim : header.shape) {
    const auto next = checked_mul(wanted, static_cast<uint64_t>(dim));
    if (!next) damaged(who, "its shape is too large");
    wanted = *next;
  }
  if (wanted != elements.size()) {
    damaged(who, fmt::format("{} bytes of elements, {} are wanted", elements.size(), wanted));
  }
  Shape shape = header.shape;
  if (header.columns_first) std::reverse(shape.begin(), shape.end());
  Array out(header.type, shape);
  if (wanted > 0) std::memcpy(out.mutable_bytes().data(), elements.data(), wanted);
  if (!header.columns_first) return out;
  std::vector<int64_t> perm;
  for (size_t d = shape.size(); d-- > 0;) perm.push_back(static_cast<int64_t>(d));
  return transposed(out, perm);
}

std::map<std::string, Array> read_npz(const std::string& path,
                                      const std::function<bool(const std::string&)>& wanted) {
  constexpr uint64_t kMostBytes = uint64_t{4} << 30;
  const MappedFile file(path);
  const ZipFile zip(file.bytes(), path);
  std::map<std::string, Array> out;
  uint64_t total_bytes = 0;
  for (const ZipEntry& entry : zip.entries()) {
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    Array array;
    if (!wanted || wanted(name)) {
      total_bytes += std::min(entry.unpacked_bytes, kMostBytes + 1);
      if (total_bytes > kMostBytes) {
        throw Error(Code::kInvalidModel,
                    fmt::format("'{}': its arrays take more than {} bytes", path, kMostBytes));
      }
      array = parse_npy(zip.read(entry).bytes, fmt::format("'{}' of {}", name, path));
    }
    if (!out.emplace(name, std::move(array)).second) {
      throw Error(Code::kInvalidModel, fmt::format("{}: there are two arrays '{}'", path, name));
    }
  }
  return out;
}

std::vector<std::string> write_npz(const std::string& path,
                                   const std::map<std::string, Array>& arrays) {
  std::vector<std::string> notes;
  AtomicFile file(path);
  std::string directory;
  const auto limit = [&](uint64_t bytes) {
    if (file.position() + bytes > 0xfffffffe) {
      throw Error(Code::kUnsupported,
                  fmt::format("'{}' would be larger than 4 GiB; ask for fewer outputs", path));
    }
  };
  for (const auto& [array_name, array] : arrays) {
    const std::string name = array_name + ".npy";
    if (name.size() > 0xffff) throw Error(Code::kUnsupported, "a name is longer than 64 KiB");
    const Array stored = storable(array_name, array, notes);
    std::string content = npy_header(stored);
    const auto bytes = stored.bytes();
    limit(content.size() + bytes.size() + 2 * name.size() + directory.size() + 1024);
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto sum = crc32_of(std::as_bytes(std::span(content)));
    const auto size = static_cast<uint32_t>(content.size());
    const auto offset = static_cast<uint32_t>(file.position());
    std::string head;
    append(head, uint32_t{0x04034b50});
    append_common(head, sum, size, name);
    head += name;
    append(directory, uint32_t{0x02014b50}, uint16_t{20});
    append_common(directory, sum, size, name);
    append(directory, uint16_t{0}, uint16_t{0}, uint16_t{0}, uint32_t{0}, offset);
    directory += name;
    file.write(head.data(), head.size());
    file.write(content.data(), content.size());
  }
  const auto begin = static_cast<uint32_t>(file.position());
  const auto count = static_cast<uint16_t>(arrays.size());
  if (arrays.size() > 0xfffe) throw Error(Code::kUnsupported, "more than 65,534 outputs");
  const auto directory_bytes = static_cast<uint32_t>(directory.size());
  append(directory, uint32_t{0x06054b50}, uint32_t{0}, count, count, directory_bytes, begin,
         uint16_t{0});
  file.write(directory.data(), directory.size());
  file.commit();
  return notes;
}

}  // namespace kvern::eval
