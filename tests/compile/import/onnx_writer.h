// .onnx files for tests, written field by field, so that every damage can be made.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::import::onnx {

// A protobuf message: fields in the order in which they are added.
class Msg {
 public:
  Msg& num(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3);
    varint(value);
    return *this;
  }
  Msg& text(uint32_t field, std::string_view value) {
    varint(uint64_t{field} << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Msg& sub(uint32_t field, const Msg& message) { return text(field, message.bytes); }
  Msg& f32(uint32_t field, float value) {
    varint(uint64_t{field} << 3 | 5);
    bytes.append(reinterpret_cast<const char*>(&value), 4);
    return *this;
  }
  Msg& varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
    bytes.push_back(static_cast<char>(value));
    return *this;
  }

  std::string bytes;
};

using Names = std::vector<std::string>;

inline Msg node(std::string_view op, const Names& inputs, const Names& outputs,
                std::string_view name = "", std::string_view domain = "") {
  Msg out;
  for (const std::string& input : inputs) out.text(1, input);
  for (const std::string& output : outputs) out.text(2, output);
  out.text(3, name).text(4, op);
  if (!domain.empty()) out.text(7, domain);
  return out;
}

inline Msg attr(std::string_view name, uint64_t type) {
  return Msg().text(1, name).num(20, type);
}
inline Msg attr_f(std::string_view name, float value) {
  return attr(name, 1).f32(2, value);
}
inline Msg attr_i(std::string_view name, int64_t value) {
  return attr(name, 2).num(3, static_cast<uint64_t>(value));
}
inline Msg attr_s(std::string_view name, std::string_view v) {
  return attr(name, 3).text(4, v);
}
inline Msg attr_t(std::string_view name, const Msg& tensor) {
  return attr(name, 4).sub(5, tensor);
}
inline Msg attr_g(std::string_view name, const Msg& graph) {
  return attr(name, 5).sub(6, graph);
}
inline Msg attr_ints(std::string_view name, const std::vector<int64_t>& values) {
  Msg out = attr(name, 7);
  for (const int64_t value : values) out.num(8, static_cast<uint64_t>(value));
  return out;
}
inline Msg attr_ref(std::string_view name, uint64_t type, std::string_view of) {
  return attr(name, type).text(21, of);
}

// dims of a TensorProto and its type; elements are the caller's.
inline Msg tensor_head(std::string_view name, int type, const std::vector<int64_t>& dims) {
  Msg out;
  for (const int64_t dim : dims) out.num(1, static_cast<uint64_t>(dim));
  out.num(2, static_cast<uint64_t>(type));
  if (!name.empty()) out.text(8, name);
  return out;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline Msg floats(std::string_view name, const std::vector<int64_t>& dims,
                  const std::vector<float>& values) {
  return tensor_head(name, 1, dims).text(9, raw(values));
}

inline Msg ints(std::string_view name, const std::vector<int64_t>& dims,
                const std::vector<int64_t>& values) {
  return tensor_head(name, 7, dims).text(9, raw(values));
}

inline Msg external(Msg tensor, std::string_view location, std::string_view offset = "",
                    std::string_view length = "") {
  tensor.num(14, 1).sub(13, Msg().text(1, "location").text(2, location));
  if (!offset.empty()) tensor.sub(13, Msg().text(1, "offset").text(2, offset));
  if (!length.empty()) tensor.sub(13, Msg().text(1, "length").text(2, length));
  return tensor;
}

// A dim that begins with a digit is a number.
inline Msg value_info(std::string_view name, int type, const Names& dims) {
  Msg shape;
  for (const std::string& dim : dims) {
    const bool number = !dim.empty() && dim[0] >= '0' && dim[0] <= '9';
    shape.sub(1, number ? Msg().num(1, std::stoull(dim)) : Msg().text(2, dim));
  }
  const Msg type_proto = Msg().sub(1, Msg().num(1, static_cast<uint64_t>(type)).sub(2, shape));
  return Msg().text(1, name).sub(2, type_proto);
}

inline Msg opset(int64_t version, std::string_view domain = "") {
  return Msg().text(1, domain).num(2, static_cast<uint64_t>(version));
}

inline Msg model(const Msg& graph, int64_t opset_version = 18) {
  return Msg().num(1, 8).text(2, "tests").sub(7, graph).sub(8, opset(opset_version));
}

// y = x + w with w of two floats.
inline Msg add_graph() {
  return Msg()
      .sub(1, node("Add", {"x", "w"}, {"y"}, "sum"))
      .sub(5, floats("w", {2}, {1, 2}))
      .sub(11, value_info("x", 1, {"batch", "2"}))
      .sub(12, value_info("y", 1, {"batch", "2"}));
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A folder of its own, gone with the object.
class TempFolder {
 public:
  TempFolder() {
    static int count = 0;
    path = std::filesystem::temp_directory_path() /
           ("kvern_onnx_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = path / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

  std::filesystem::path path;
};

}  // namespace kvern::import::onnx
