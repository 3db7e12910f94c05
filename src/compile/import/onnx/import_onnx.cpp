#include "compile/import/onnx/import_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compile/import/hf/folder.h"
#include "compile/import/hf/generation.h"
#include "compile/import/hf/join_tokenizer.h"
#include "compile/import/onnx/model_hash.h"
#include "compile/import/onnx/reader.h"
#include "compile/import/onnx/refuse.h"
#include "kvern/error.h"

namespace kvern::import::onnx {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBeside[] = {"config.json", "genai_config.json", "tokenizer.json",
                                   "tokenizer.model", "tokenizer_config.json"};
constexpr size_t kMaxNotes = 100000;
// Exports hold thousands of constants that are shapes and axes; those are no weights to report on.
constexpr int64_t kLeastNoted = 12;

bool has_companions(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(kBeside,
                             [&](const char* name) { return fs::exists(folder / name, ignored); });
}

// Where tokenizer and configuration lie: beside the file, or one up where the file is in a
// subfolder "onnx" that has none.
fs::path companion_folder(const fs::path& file) {
  std::error_code ignored;
  const fs::path beside = file.parent_path().empty() ? "." : file.parent_path();
  if (has_companions(beside)) return beside;
  const fs::path full = fs::absolute(beside, ignored).lexically_normal();
  const fs::path above = full.parent_path();
  if (full.filename() == "onnx" && has_companions(above)) return above;
  return beside;
}

std::string model_name(const fs::path& file) {
  const std::string stem = file.stem().string();
  std::string name = stem;
  for (const char* usual : {"model", "decoder_model_merged", "decoder_model"}) {
    if (stem != usual) continue;
    std::error_code ignored;
    fs::path folder = fs::absolute(file, ignored).lexically_normal().parent_path();
    if (folder.filename() == "onnx") folder = folder.parent_path();
    if (folder.has_filename()) name = folder.filename().string();
  }
  return shown(name);
}

std::optional<ConfigFacts> config_beside(const std::string& folder,
                                         std::vector<std::string>& warnings) {
  for (const char* file : {"config.json", "genai_config.json"}) {
    const std::string text = hf::read_optional(folder, file);
    if (text.empty()) continue;
    try {
      return read_config_facts(text, file);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      warnings.push_back(fmt::format("{} beside the model is not used: {}", file, error.what()));
    }
  }
  return std::nullopt;
}

// The table that Gather takes rows of by the ids, where there is one: [vocabulary, hidden].
Shape embedding_shape(const ir::TensorGraph& graph) {
  for (const ir::TensorNode& node : graph.nodes) {
    if (node.op != "Gather" || node.inputs.size() != 2) continue;
    const auto table = graph.constants.find(node.inputs[0]);
    const bool by_ids = std::ranges::find(graph.inputs, node.inputs[1]) != graph.inputs.end() &&
                        graph.name_of(node.inputs[1]).find("input_ids") != std::string::npos;
    if (by_ids && table != graph.constants.end() && table->second.rank() == 2) {
      return table->second.shape();
    }
  }
  return {};
}

// The last dim of the logits, where the file says it; else 0.
int64_t declared_vocabulary(const ir::TensorGraph& graph) {
  for (const ir::TensorValueId id : graph.outputs) {
    const ir::TensorValue& value = graph.values[static_cast<size_t>(id)];
    if (value.name.find("logits") == std::string::npos || value.dims.size() < 2) continue;
    if (value.dims.back().value > 0) return value.dims.back().value;
  }
  return 0;
}

int64_t first_positive(std::initializer_list<int64_t> values) {
  for (const int64_t value : values) {
    if (value > 0) return value;
  }
  return 0;
}

void set_sizes(const ir::TensorGraph& graph, ImportedModel& model) {
  const ConfigFacts facts = model.config.value_or(ConfigFacts{});
  const Shape table = embedding_shape(graph);
  model.vocabulary_size = first_positive(
      {declared_vocabulary(graph), facts.vocabulary_size, table.empty() ? 0 : table[0]});
  if (model.vocabulary_size > INT32_MAX) {
    fail(fmt::format("the model has {} tokens; ids have 31 bits", model.vocabulary_size));
  }
  model.hidden_size = first_positive({facts.hidden_size, table.empty() ? 0 : table[1]});
  model.num_layers = facts.num_layers;
  model.max_context_length = facts.max_context_length;
}

// Constants of this graph and of its bodies, in the order of their values.
void note_tensors(const ir::TensorGraph& graph, ImportedModel& model) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const auto found = graph.constants.find(static_cast<ir::TensorValueId>(i));
    if (found == graph.constants.end()) continue;
    const ir::Array& array = found->second;
    if (ir::is_float(array.type())) model.num_parameters += array.count();
    if (array.count() < kLeastNoted || model.tensors.size() >= kMaxNotes) continue;
    model.tensors.push_back(
        {graph.values[i].name, std::string(element_type_name(array.type())), array.shape(), ""});
  }
  for (const ir::TensorNode& node : graph.nodes) {
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr);
      if (body != nullptr) note_tensors(**body, model);
    }
  }
}

void read_text(const std::string& folder, ImportedModel& model) {
  if (model.config) hf::add_stop_ids(model.config->stop_ids, "config.json", model);
  const std::string generation = hf::read_optional(folder, "generation_config.json");
  if (!generation.empty()) hf::read_generation(generation, model);
  hf::join_tokenizer(folder, model);
}

}  // namespace

ImportedModel import_onnx(const std::string& path, const LoadOptions& options) {
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? find_onnx(path) : path;
  if (file.empty()) {
    throw Error(Code::kNotFound, fmt::format("onnx: folder '{}' holds no .onnx file", path));
  }
  OnnxModel read = read_onnx(file);
  ImportedModel model;
  model.tensor = std::make_shared<ir::TensorModel>(std::move(read.model));
  model.files = std::move(read.files);
  for (const auto& each : model.files) {
    model.graph.files.push_back(fs::path(each->path()).filename().string());
  }
  model.warnings = std::move(read.warnings);
  const std::string folder = companion_folder(file).string();
  model.config = config_beside(folder, model.warnings);
  const std::string type = model.config ? model.config->model_type : "";
  model.family = type.empty() ? "onnx" : shown(type);
  model.name = model_name(file);
  set_sizes(model.tensor->graph, model);
  note_tensors(model.tensor->graph, model);
  read_text(folder, model);
  model.source_hash = hash_model(*model.tensor, options.progress);
  return model;
}

}  // namespace kvern::import::onnx
