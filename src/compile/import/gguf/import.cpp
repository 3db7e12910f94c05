#include "compile/import/gguf/import.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/import/families/family.h"
#include "compile/import/gguf/reader.h"
#include "compile/import/gguf/tokenizer.h"
#include "compile/import/source_hash.h"

namespace kvern::import::gguf {
namespace {

const Family& family_of(const File& file) {
  const std::string_view architecture = file.metadata.string("general.architecture");
  const Family* family = family_of_gguf(architecture);
  if (family != nullptr) return *family;
  std::vector<std::string_view> known;
  for (const Family& each : all_families()) {
    if (each.gguf_architecture != nullptr) known.emplace_back(each.gguf_architecture);
  }
  unsupported(file.name, fmt::format("architecture '{}' is not supported; known: {}",
                                     shown(architecture), fmt::join(known, ", ")));
}

void refuse_surplus(const File& file, const WeightSet& weights) {
  const std::vector<std::string> unused = weights.unused();
  if (unused.empty()) return;
  std::vector<std::string> named;
  for (size_t i = 0; i < std::min<size_t>(unused.size(), 5); ++i) named.push_back(shown(unused[i]));
  fail(file.name, fmt::format("{} tensors have no place in this model: {}{}; leaving them out "
                              "would change its results",
                              unused.size(), fmt::join(named, ", "),
                              named.size() < unused.size() ? ", ..." : ""));
}

void check_vocabulary(const File& file, const ImportedModel& model) {
  const auto num_tokens = static_cast<int64_t>(model.text.tokens.size());
  if (num_tokens > model.vocabulary_size) {
    fail(file.name, fmt::format("the tokenizer has {} tokens, the model {}; the two do not belong "
                                "together",
                                num_tokens, model.vocabulary_size));
  }
}

std::string model_name(const File& file) {
  constexpr size_t kMaxNameBytes = 200;
  const auto given = file.metadata.find_string("general.name");
  if (!given || given->empty()) {
    const std::string stem = file.name.substr(file.name.find_last_of('/') + 1);
    return stem.ends_with(".gguf") ? stem.substr(0, stem.size() - 5) : stem;
  }
  std::string name(given->substr(0, kMaxNameBytes));
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';  // terminals obey these
  }
  return name;
}

// What became of each tensor, in the order of the file.
std::vector<TensorNote> note_tensors(const ir::Graph& graph) {
  std::vector<TensorNote> notes;
  for (const ir::WeightSource& tensor : graph.sources) {
    notes.push_back({tensor.name, ir::source_type_info(tensor.type).name, tensor.shape, ""});
  }
  for (const ir::Weight& weight : graph.weights) {
    for (const ir::RecipeNode& node : weight.recipe.nodes) {
      if (node.op != ir::RecipeOp::kUnpermute) continue;
      const int32_t source = weight.recipe.nodes.front().source;
      notes[static_cast<size_t>(source)].note =
          fmt::format("rows of {} heads unpermuted", node.heads);
    }
  }
  return notes;
}

}  // namespace

ImportedModel import_bytes(std::span<const std::byte> bytes, const std::string& name,
                           const LoadOptions& options) {
  const File file = read(bytes, name);
  if (file.metadata.find_count("split.count").value_or(1) > 1) {
    unsupported(name, "is one part of a split model; join the parts first");
  }
  const Family& family = family_of(file);
  ImportedModel model;
  model.family = family.name;
  model.name = model_name(file);
  model.graph.files = {name.substr(name.find_last_of('/') + 1)};
  WeightSet weights(model.graph, file.tensors, fmt::format("gguf: file '{}'", name));
  family.from_gguf(file, weights, model);
  refuse_surplus(file, weights);
  model.text = read_tokenizer(file, model.warnings);
  check_vocabulary(file, model);
  model.stop_ids = model.text.stop_ids;
  for (const ir::WeightSource& tensor : file.tensors) {
    model.num_parameters += num_elements(tensor.shape);
  }
  model.tensors = note_tensors(model.graph);
  model.source_hash = hash_tensors(file.tensors, {{bytes}}, options.progress);
  return model;
}

}  // namespace kvern::import::gguf
