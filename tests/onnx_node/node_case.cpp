#include "tests/onnx_node/node_case.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "compile/eval/tensor/element.h"
#include "compile/import/onnx/wire.h"
#include "kvern/error.h"

namespace kvern::onnx_node {
namespace {

using ir::Array;
using ir::ElementType;

std::string field(uint32_t number, const std::string& bytes) {
  std::string out;
  import::onnx::append_varint(out, number << 3 | 2);
  import::onnx::append_varint(out, bytes.size());
  return out + bytes;
}

std::string number_field(uint32_t number, uint64_t value) {
  std::string out;
  import::onnx::append_varint(out, number << 3);
  import::onnx::append_varint(out, value);
  return out;
}

// A file of one TensorProto, read as the initializer of a model that has nothing else.
Array read_tensor(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string tensor{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw Error(Code::kIo, "cannot read " + path.string());
  // The name is put last: of a field given twice the last counts.
  const std::string graph =
      field(2, "g") + field(5, tensor + field(8, "t")) + field(12, field(1, "t"));
  const std::string model = number_field(1, 8) + field(8, number_field(2, 18)) + field(7, graph);
  const import::onnx::OnnxModel read =
      import::onnx::read_onnx_bytes(std::as_bytes(std::span(model)), path.string());
  return read.model.graph.constants.at(read.model.graph.find("t"));
}

// The elements may lie in a buffer that is gone after reading.
Array own(Array array) {
  array.mutable_bytes();
  return array;
}

}  // namespace

NodeCase read_case(const std::filesystem::path& folder) {
  NodeCase out;
  out.model = import::onnx::read_onnx((folder / "model.onnx").string());
  const std::filesystem::path data = folder / "test_data_set_0";
  for (int i = 0; std::filesystem::exists(data / fmt::format("input_{}.pb", i)); ++i) {
    out.inputs.push_back(own(read_tensor(data / fmt::format("input_{}.pb", i))));
  }
  for (int i = 0; std::filesystem::exists(data / fmt::format("output_{}.pb", i)); ++i) {
    out.outputs.push_back(own(read_tensor(data / fmt::format("output_{}.pb", i))));
  }
  return out;
}

std::string op_of(const ir::TensorGraph& graph) {
  if (graph.nodes.empty()) return "Constant";  // what the reader made of the only node
  if (graph.nodes.size() > 1) return "graphs";
  const ir::TensorNode& node = graph.nodes.front();
  return node.domain.empty() ? node.op : fmt::format("{}.{}", node.domain, node.op);
}

std::string difference(const Array& got, const Array& wanted) {
  if (got.type() != wanted.type() || got.shape() != wanted.shape()) {
    return fmt::format("wanted {}{}, got {}{}", ir::element_type_name(wanted.type()),
                       to_string(wanted.shape()), ir::element_type_name(got.type()),
                       to_string(got.shape()));
  }
  if (!ir::is_float(got.type())) {
    return std::memcmp(got.bytes().data(), wanted.bytes().data(), got.bytes().size()) == 0
               ? ""
               : "other values";
  }
  const bool half = eval::is_half(got.type());
  const double relative = half ? 1e-2 : 1e-3, absolute = half ? 1e-3 : 1e-5;
  const std::vector<double> a = got.to_f64(), b = wanted.to_f64();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i]);
    if (!same) return fmt::format("element {}: wanted {}, got {}", i, b[i], a[i]);
  }
  return "";
}

}  // namespace kvern::onnx_node
