// A source file of raw bytes in a temporary folder, with a graph of weights over it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "compile/quantize/materialize.h"

namespace kvern::quantize {

class SourceFile {
 public:
  // Appends a tensor; returns its index among graph.sources.
  int32_t add(const std::string& name, ir::SourceType type, const Shape& shape,
              const std::string& bytes) {
    ir::WeightSource source;
    source.name = name;
    source.offset = bytes_.size();
    source.bytes = bytes.size();
    source.type = type;
    source.shape = shape;
    bytes_ += bytes;
    graph.sources.push_back(source);
    return static_cast<int32_t>(graph.sources.size()) - 1;
  }
  int32_t add_f32(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    return add(
        name, ir::SourceType::kF32, shape,
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }

  // A weight that is one source as it lies there.
  ir::Weight& weight(int32_t source) {
    const ir::WeightSource& from = graph.sources[static_cast<size_t>(source)];
    ir::RecipeNode leaf;
    leaf.source = source;
    graph.weights.push_back({from.name, from.shape, {{leaf}}, {}});
    return graph.weights.back();
  }

  // Writes what was added so far and maps it.
  Files files() {
    static int count = 0;
    const std::string path =
        (std::filesystem::temp_directory_path() /
         ("kvern_source_" + std::to_string(getpid()) + "_" + std::to_string(count++)))
            .string();
    std::ofstream(path, std::ios::binary) << bytes_;
    auto mapped = std::make_shared<MappedFile>(path);
    std::filesystem::remove(path);
    return {mapped};
  }

  ir::Graph graph;

 private:
  std::string bytes_;
};

}  // namespace kvern::quantize
