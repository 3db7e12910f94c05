#include "compile/import/hf/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "compile/import/families/family.h"
#include "compile/import/hf/config.h"
#include "compile/import/hf/generation.h"
#include "compile/import/hf/join_tokenizer.h"
#include "compile/import/source_hash.h"

namespace kvern::import::hf {
namespace {

constexpr const char* kConfig = "config.json";

// Tensors that a finished model does not need, by the end of their names.
struct Harmless {
  const char* suffix;
  const char* why;
};
constexpr Harmless kHarmless[] = {
    {"rotary_emb.inv_freq", "unused: the rope's frequencies follow from config.json"},
    {".attn.masked_bias", "unused: a constant of the causal mask"},
    {".attention.masked_bias", "unused: a constant of the causal mask"},
};
// The causal mask itself; of more than one dimension, which no bias is.
constexpr const char* kMasks[] = {".attn.bias", ".attention.bias"};
// Parts for images, of models whose text part is asked for.
constexpr const char* kImageParts[] = {"vision_tower.", "multi_modal_projector."};

// Why nobody misses the tensor; nullptr when it may be missed.
const char* harmless(const ir::WeightSource& tensor, bool text_part) {
  const std::string_view name = tensor.name;
  for (const Harmless& each : kHarmless) {
    if (name.ends_with(each.suffix)) return each.why;
  }
  for (const char* mask : kMasks) {
    if (tensor.shape.size() > 1 && name.ends_with(mask)) return "unused: the causal mask";
  }
  for (const char* part : kImageParts) {
    if (text_part && name.find(part) != std::string_view::npos) return "unused: reads images";
  }
  return nullptr;
}

// The text part's own object where the file describes a model of text and images.
struct ModelConfig {
  Config whole;
  Config text;
  bool text_part = false;
};

ModelConfig open_config(std::string_view json) {
  Config whole = Config::parse(json, kConfig);
  auto text = whole.find_object("text_config");
  if (!text) return {whole, whole, false};
  // Sizes of the image part, and which ids stand for images.
  whole.ignore({"vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index",
                "image_token_index", "image_token_id", "boi_token_id", "eoi_token_id",
                "tie_word_embeddings"});
  return {whole, *text, true};
}

const Family& family_of(const ModelConfig& config) {
  const auto type = config.text.find_string("model_type");
  const Family* family = type ? family_of_hf(*type) : nullptr;
  if (family != nullptr) return *family;
  std::vector<std::string_view> known;
  for (const Family& each : all_families()) {
    if (each.hf_model_type != nullptr) known.emplace_back(each.hf_model_type);
  }
  config.text.unsupported_field(
      "model_type", fmt::format("is '{}'; supported are {}", type.value_or("").substr(0, 60),
                                fmt::join(known, ", ")));
}

// A model of another task has other heads, or none.
void check_class(const ModelConfig& config) {
  const auto classes = config.whole.find_strings("architectures");
  if (!classes || classes->empty()) return;
  const std::string& name = classes->front();
  for (const char* end : {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"}) {
    if (name.ends_with(end)) return;
  }
  config.whole.unsupported_field("architectures",
                                 fmt::format("is '{}'; models that continue text (…ForCausalLM) "
                                             "are supported",
                                             name.substr(0, 60)));
}

// Keeps the tensors that a model needs; a note for each that it does not.
std::vector<ir::WeightSource> needed(const WeightFiles& weights, const ModelConfig& config,
                                     std::vector<TensorNote>& notes) {
  for (size_t i = 0; i < weights.foreign.size(); ++i) {
    const ir::WeightSource& tensor = weights.foreign[i];
    const char* why = harmless(tensor, config.text_part);
    if (why == nullptr) {
      unsupported(weights.names[static_cast<size_t>(tensor.file)],
                  fmt::format("tensor '{}' is {}; F32, F16 and BF16 are read. Save the model in "
                              "one of them",
                              tensor.name.substr(0, 120), weights.foreign_types[i]));
    }
    notes.push_back({tensor.name, weights.foreign_types[i], tensor.shape, why});
  }
  std::vector<ir::WeightSource> out;
  for (const ir::WeightSource& tensor : weights.tensors) {
    const char* why = harmless(tensor, config.text_part);
    if (why == nullptr) {
      out.push_back(tensor);
    } else {
      notes.push_back({tensor.name, ir::source_type_info(tensor.type).name, tensor.shape, why});
    }
  }
  return out;
}

const char* note_of(const ir::Recipe& recipe) {
  for (const ir::RecipeNode& node : recipe.nodes) {
    switch (node.op) {
      case ir::RecipeOp::kSliceRows:
        return "split by rows";
      case ir::RecipeOp::kHeadPart:
        return "split by heads";
      case ir::RecipeOp::kTranspose:
        return "transposed";
      case ir::RecipeOp::kOffset:
        return "plus 1";
      default:
        break;
    }
  }
  return "";
}

void note_tensors(const ir::Graph& graph, std::vector<TensorNote>& notes) {
  const size_t first = notes.size();
  for (const ir::WeightSource& tensor : graph.sources) {
    notes.push_back({tensor.name, ir::source_type_info(tensor.type).name, tensor.shape, ""});
  }
  for (const ir::Weight& weight : graph.weights) {
    const int32_t source = weight.recipe.nodes.front().source;
    if (source >= 0) notes[first + static_cast<size_t>(source)].note = note_of(weight.recipe);
  }
}

void refuse_surplus(const WeightSet& weights) {
  const std::vector<std::string> unused = weights.unused();
  if (unused.empty()) return;
  std::vector<std::string> named;
  for (size_t i = 0; i < std::min<size_t>(unused.size(), 5); ++i) {
    named.push_back(unused[i].substr(0, 120));
  }
  fail("weights", fmt::format("{} tensors have no place in this model: {}{}; leaving them out "
                              "would change its results",
                              unused.size(), fmt::join(named, ", "),
                              named.size() < unused.size() ? ", …" : ""));
}

std::string folder_name(const std::string& path) {
  std::error_code ignored;
  const auto full = std::filesystem::canonical(path, ignored);
  std::string name = full.filename().string();
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name.empty() ? "model" : name.substr(0, 200);
}

}  // namespace

namespace {

// Everything that the configuration says, once `set` knows where weights come from.
void import_with(const ModelConfig& config, WeightSet& set, ImportedModel& model) {
  const Family& family = family_of(config);
  check_class(config);
  model.family = family.name;
  family.from_hf(config.text, set, model);
  config.whole.refuse_unread();
  for (const Config& each : {config.text, config.whole}) {
    if (const auto ids = each.find_integers("eos_token_id")) add_stop_ids(*ids, kConfig, model);
  }
  for (const ir::WeightSource& tensor : model.graph.sources) {
    model.num_parameters += num_elements(tensor.shape);
  }
  note_tensors(model.graph, model.tensors);
}

}  // namespace

ImportedModel import_config(std::string_view config_json, const WeightFiles& weights) {
  const ModelConfig config = open_config(config_json);
  ImportedModel model;
  model.graph.files = weights.names;
  WeightSet set(model.graph, needed(weights, config, model.tensors), "hf");
  import_with(config, set, model);
  refuse_surplus(set);
  return model;
}

ImportedModel import_synthetic(const std::string& config_path, uint64_t seed) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(config_path, ignored);
  const std::string path =
      folder ? (std::filesystem::path(config_path) / kConfig).string() : config_path;
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const ModelConfig config = open_config(json);
  ImportedModel model;
  model.synthetic_seed = seed;
  model.graph.files = {"synthetic"};
  WeightSet set = WeightSet::synthetic(model.graph, "hf");
  import_with(config, set, model);
  model.name = "synthetic " + model.family;
  model.source_hash = hex64(hash64(json, seed));
  return model;
}

ImportedModel import_folder(const std::string& path, const LoadOptions& options) {
  const std::string config = read_optional(path, kConfig);
  if (config.empty()) {
    throw Error(Code::kNotFound,
                fmt::format("hf: folder '{}' holds no config.json; give a Hugging Face folder, a "
                            "GGUF file or an ONNX file",
                            path));
  }
  const WeightFiles weights = open_weights(path);
  ImportedModel model = import_config(config, weights);
  model.name = folder_name(path);
  model.files = weights.files;
  const std::string generation = read_optional(path, "generation_config.json");
  if (!generation.empty()) read_generation(generation, model);
  join_tokenizer(path, model);
  std::vector<std::span<const std::byte>> bytes;
  for (const auto& file : weights.files) bytes.push_back(file->bytes());
  model.source_hash = hash_tensors(model.graph.sources, bytes, options.progress);
  return model;
}

}  // namespace kvern::import::hf
