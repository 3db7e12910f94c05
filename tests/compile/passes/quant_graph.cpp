#include "tests/compile/passes/quant_graph.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace kvern::passes {
namespace {

namespace fs = std::filesystem;
using ir::ElementType;

std::string placeholder(const std::string& name, const ir::Array& array) {
  std::string zeros;
  for (int64_t i = 0; i < array.count(); ++i) zeros += i > 0 ? ", 0" : "0";
  std::string dims;
  for (const int64_t dim : array.shape())
    dims += fmt::format("{}{}", dims.empty() ? "" : ", ", dim);
  return fmt::format("const %{} {}[{}] = {{{}}}\n", name, ir::element_type_name(array.type()), dims,
                     zeros);
}

std::vector<std::byte> stored(const ir::Array& array) {
  const auto bytes = array.bytes();
  const bool nibbles = array.type() == ElementType::kUint4 || array.type() == ElementType::kInt4;
  if (!nibbles) return {bytes.begin(), bytes.end()};
  std::vector<std::byte> out((bytes.size() + 1) / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto code = static_cast<unsigned>(bytes[i]) & 15u;
    out[i / 2] |= static_cast<std::byte>(code << (i % 2 * 4));
  }
  return out;
}

}  // namespace

QuantGraph& QuantGraph::codes(const std::string& name, ElementType type, const Shape& shape,
                              int low, int high) {
  ir::Array array(type, shape);
  for (std::byte& b : array.mutable_bytes()) {
    b = static_cast<std::byte>(std::uniform_int_distribution<int>(low, high)(random_));
  }
  return constant(name, std::move(array));
}

QuantGraph& QuantGraph::floats(const std::string& name, const Shape& shape, float low, float high) {
  ir::Array array(ElementType::kFloat, shape);
  for (float& v : array.mutable_as<float>()) {
    v = std::uniform_real_distribution<float>(low, high)(random_);
  }
  return constant(name, std::move(array));
}

QuantGraph& QuantGraph::constant(const std::string& name, ir::Array array) {
  constants_.emplace_back(name, std::move(array));
  return *this;
}

QuantGraph& QuantGraph::without_file() {
  in_file_ = false;
  return *this;
}

void QuantGraph::graph(const std::string& text, bool embedded) {
  if (embedded) floats("table", {24, 32}, -1, 1);
  const std::string begin = "input %input_ids int64[batch, seq]\n";
  const std::string embed = embedded ? "%x = Gather(%table, %input_ids) {axis = 0}\n" : "";
  std::string consts;
  for (const auto& [name, array] : constants_) consts += placeholder(name, array);
  const std::string end =
      "%seen = Attention(%made, %made, %made) "
      "{q_num_heads = 2, kv_num_heads = 2, is_causal = 1} opset 23\n"
      "%logits = Add(%made, %seen)\noutput %logits\n";
  model.graph = ir::parse_tensor_graph(begin + consts + embed + text + end, 21);
  std::vector<std::byte> file(1);  // nothing is aligned
  for (auto& [name, array] : constants_) {
    const std::vector<std::byte> bytes = stored(array);
    if (in_file_) {
      array = ir::Array::view(array.type(), array.shape(), array.bytes(),
                              std::make_shared<ir::Array>(array),
                              ir::ArrayOrigin{name, 0, file.size()});
    }
    file.insert(file.end(), bytes.begin(), bytes.end());
    model.graph.constants.insert_or_assign(model.graph.find(name), array);
  }
  const fs::path path = fs::temp_directory_path() / fmt::format("kvern_quant_{}", ::getpid());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<long>(file.size()));
  files.push_back(std::make_shared<MappedFile>(path.string()));
  fs::remove(path);  // the mapping stays
}

}  // namespace kvern::passes
