#include "compile/import/onnx/model_hash.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace kvern::import::onnx {
namespace {

constexpr uint64_t kChunkBytes = 8 << 20;

uint64_t bytes_of(const ir::TensorGraph& graph) {
  uint64_t bytes = 0;
  for (const auto& [id, array] : graph.constants) bytes += array.bytes().size();
  for (const ir::TensorNode& node : graph.nodes) {
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr);
      if (body != nullptr) bytes += bytes_of(**body);
    }
  }
  return bytes;
}

class GraphHasher {
 public:
  GraphHasher(uint64_t total, const std::function<void(uint64_t, uint64_t)>& progress)
      : total_(total), progress_(progress) {}

  void add(const ir::TensorGraph& graph) {
    add_ids(graph.inputs);
    add_ids(graph.outputs);
    for (const auto& [outer, own] : graph.captures) add_ids({outer, own});
    std::vector<ir::TensorValueId> ids;
    for (const auto& [id, array] : graph.constants) ids.push_back(id);
    std::ranges::sort(ids);
    for (const ir::TensorValueId id : ids) {
      text(fmt::format("{}\n{}\n", id, graph.name_of(id)));
      add(graph.constants.at(id));
    }
    for (const ir::TensorNode& node : graph.nodes) add(node);
  }

  std::string digest() const { return hex64(hasher_.digest()); }

 private:
  void add(const ir::TensorNode& node) {
    text(fmt::format("{}\n{}\n{}\n", node.domain, node.op, node.opset));
    add_ids(node.inputs);
    add_ids(node.outputs);
    for (const auto& [name, attr] : node.attrs) {
      text(fmt::format("{}\n{}\n", name, attr.index()));
      std::visit([&](const auto& value) { add(value); }, attr);
    }
  }

  void add(int64_t value) { text(fmt::format("{}\n", value)); }
  void add(double value) { text(fmt::format("{}\n", value)); }
  void add(const std::string& value) { text(fmt::format("{}:{}\n", value.size(), value)); }
  template <class T>
  void add(const std::vector<T>& values) {
    text(fmt::format("[{}\n", values.size()));
    for (const T& value : values) add(value);
  }
  void add(const std::shared_ptr<const ir::TensorGraph>& body) { add(*body); }

  void add(const ir::Array& array) {
    text(fmt::format("{}\n{}\n", static_cast<int>(array.type()), to_string(array.shape())));
    const std::span<const std::byte> bytes = array.bytes();
    for (uint64_t at = 0; at < bytes.size(); at += kChunkBytes) {
      const uint64_t length = std::min<uint64_t>(kChunkBytes, bytes.size() - at);
      hasher_.update(bytes.subspan(at, length));
      done_ += length;
      // Not for each of a thousand scalars.
      if (progress_ && (done_ - told_ >= kChunkBytes || done_ >= total_)) {
        progress_(std::min(told_ = done_, total_), total_);
      }
    }
  }

  void add_ids(const std::vector<ir::TensorValueId>& ids) {
    text(fmt::format("{}:", ids.size()));
    hasher_.update(std::as_bytes(std::span(ids)));
  }
  void text(const std::string& value) { hasher_.update(std::as_bytes(std::span(value))); }

  Hasher hasher_;
  uint64_t total_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  uint64_t done_ = 0;
  uint64_t told_ = 0;
};

}  // namespace

std::string hash_model(const ir::TensorModel& model,
                       const std::function<void(uint64_t, uint64_t)>& progress) {
  GraphHasher hasher(bytes_of(model.graph), progress);
  hasher.add(model.graph);
  return hasher.digest();
}

}  // namespace kvern::import::onnx
