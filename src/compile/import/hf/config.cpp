#include "compile/import/hf/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/json.h"

namespace kvern::import::hf {
namespace {

// Fields of any configuration that cannot change what a finished model answers.
constexpr std::array kHarmless = {
    // Where it comes from and which class holds it; the family is model_type.
    "_name_or_path",
    "_model_name_or_path",
    "_commit_hash",
    "is_llama_config",
    "transformers.js_config",
    "architectures",
    "auto_map",
    "model_type",
    "name_or_path",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    // How numbers lie in the files, which say it themselves, and how others compute.
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "dtype",
    "torch_dtype",
    "use_cache",
    "cache_implementation",
    "torchscript",
    "use_bfloat16",
    // Training.
    "attention_dropout",
    "attn_dropout",
    "attn_pdrop",
    "classifier_dropout",
    "embd_pdrop",
    "hidden_dropout",
    "hidden_dropout_prob",
    "gradient_checkpointing",
    "initializer_range",
    "resid_pdrop",
    // Numbers of the tokenizer, read from its own files.
    "bos_token_id",
    "decoder_start_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "unk_token_id",
    "tokenizer_class",
    "prefix",
    // What is returned beside the logits, and heads of other tasks.
    "chunk_size_feed_forward",
    "finetuning_task",
    "_num_labels",
    "id2label",
    "label2id",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "problem_type",
    "return_dict",
    "return_dict_in_generate",
    "task_specific_params",
    "pruned_heads",
    "is_decoder",
    // Tensor-parallel slices of pretraining; their sum is the plain product.
    "pretraining_tp",
    // Generation defaults that very old files keep here; generation_config.json is read.
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "remove_invalid_values",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "tf_legacy_loss",
    "top_k",
    "top_p",
    "typical_p",
};

constexpr size_t kMaxShown = 80;

// As a message may show it: short, without control characters.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, kMaxShown));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.size() > kMaxShown ? out + "…" : out;
}

}  // namespace

void fail(const std::string& file, const std::string& problem) {
  throw Error(Code::kInvalidModel, fmt::format("hf: {}: {}", file, problem));
}

void unsupported(const std::string& file, const std::string& problem) {
  throw Error(Code::kUnsupported, fmt::format("hf: {}: {}", file, problem));
}

struct Config::Node {
  std::shared_ptr<const Json> root;  // keeps `object` alive
  const Json* object = nullptr;
  std::string file;
  std::string path;  // "rope_parameters." in front of this object's fields
  std::set<std::string, std::less<>> read;
  std::map<std::string, std::shared_ptr<Node>> children;

  void collect_unread(std::vector<std::string>& names) const {
    for (const auto& [key, value] : object->items()) {
      if (value.is_null() || std::ranges::find(kHarmless, key) != kHarmless.end()) continue;
      if (!read.contains(key)) names.push_back(path + shown(key));
    }
    for (const auto& [key, child] : children) child->collect_unread(names);
  }
};

Config Config::parse(std::string_view text, const std::string& file) {
  auto root = std::make_shared<const Json>(
      parse_json(text, fmt::format("hf: {}", file), Code::kInvalidModel));
  if (!root->is_object()) hf::fail(file, "is no JSON object; it is damaged, fetch it again");
  auto node = std::make_shared<Node>();
  node->root = root;
  node->object = root.get();
  node->file = file;
  return Config(std::move(node));
}

const std::string& Config::file() const {
  return node_->file;
}

void Config::fail_field(const std::string& key, const std::string& problem) const {
  hf::fail(node_->file, fmt::format("field '{}{}' {}", node_->path, shown(key), problem));
}

void Config::unsupported_field(const std::string& key, const std::string& problem) const {
  hf::unsupported(node_->file, fmt::format("field '{}{}' {}", node_->path, shown(key), problem));
}

const Json* Config::find(const std::string& key) const {
  node_->read.insert(key);
  const auto found = node_->object->find(key);
  if (found == node_->object->end() || found->is_null()) return nullptr;
  return &*found;
}

bool Config::has(const std::string& key) const {
  const auto found = node_->object->find(key);
  return found != node_->object->end() && !found->is_null();
}

bool Config::is_null(const std::string& key) const {
  const auto found = node_->object->find(key);
  return found != node_->object->end() && found->is_null();
}

std::optional<int64_t> Config::find_integer(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}) {
    fail_field(key, "is beyond any size");
  }
  if (!value->is_number_integer()) fail_field(key, "is no integer");
  return value->get<int64_t>();
}

std::optional<double> Config::find_real(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    fail_field(key, "is no finite number");
  }
  return value->get<double>();
}

std::optional<bool> Config::find_bool(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_field(key, "is neither true nor false");
  return value->get<bool>();
}

std::optional<std::string> Config::find_string(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_field(key, "is no string");
  return value->get<std::string>();
}

std::optional<std::vector<int64_t>> Config::find_integers(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return std::vector<int64_t>{*find_integer(key)};
  if (!value->is_array()) fail_field(key, "is neither an integer nor a list of integers");
  std::vector<int64_t> out;
  for (const Json& each : *value) {
    const bool wide = each.is_number_unsigned() && each.get<uint64_t>() > uint64_t{INT64_MAX};
    if (!each.is_number_integer() || wide) {
      fail_field(key, "holds something else than integers");
    }
    out.push_back(each.get<int64_t>());
  }
  return out;
}

std::vector<double> Config::reals(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) fail_field(key, "is no list of numbers");
  std::vector<double> out;
  for (const Json& each : *value) {
    if (!each.is_number() || !std::isfinite(each.get<double>())) {
      fail_field(key, "holds something else than finite numbers");
    }
    out.push_back(each.get<double>());
  }
  return out;
}

std::optional<std::vector<std::string>> Config::find_strings(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) fail_field(key, "is no list of strings");
  std::vector<std::string> out;
  for (const Json& each : *value) {
    if (!each.is_string()) fail_field(key, "holds something else than strings");
    out.push_back(each.get<std::string>());
  }
  return out;
}

std::optional<Config> Config::find_object(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail_field(key, "is no object");
  std::shared_ptr<Node>& child = node_->children[key];
  if (child == nullptr) {
    child = std::make_shared<Node>();
    child->root = node_->root;
    child->object = value;
    child->file = node_->file;
    child->path = node_->path + key + ".";
  }
  return Config(child);
}

int64_t Config::size(const std::string& key, int64_t largest) const {
  const auto value = find_integer(key);
  if (!value) fail_field(key, "is missing");
  if (*value < 1 || *value > largest) {
    fail_field(key, fmt::format("is {}; 1 to {} are possible", *value, largest));
  }
  return *value;
}

int64_t Config::size_or(const std::string& key, int64_t otherwise, int64_t largest) const {
  return has(key) ? size(key, largest) : (find(key), otherwise);
}

double Config::positive(const std::string& key) const {
  const auto value = find_real(key);
  if (!value) fail_field(key, "is missing");
  if (*value < 1e-30 || *value > 1e30) {
    fail_field(key, fmt::format("is {}; a number above zero is wanted", *value));
  }
  return *value;
}

double Config::positive_or(const std::string& key, double otherwise) const {
  return has(key) ? positive(key) : otherwise;
}

bool Config::bool_or(const std::string& key, bool otherwise) const {
  return find_bool(key).value_or(otherwise);
}

std::string Config::string_or(const std::string& key, const std::string& otherwise) const {
  return find_string(key).value_or(otherwise);
}

void Config::ignore(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) node_->read.insert(key);
}

void Config::must_be(const std::string& key, bool wanted, const char* why) const {
  if (bool_or(key, wanted) != wanted) {
    unsupported_field(key, fmt::format("is {}: {}", !wanted, why));
  }
}

void Config::refuse_unread() const {
  std::vector<std::string> names;
  node_->collect_unread(names);
  if (names.empty()) return;
  const size_t count = names.size();
  names.resize(std::min<size_t>(count, 5));
  hf::unsupported(node_->file,
                  fmt::format("{} field{} not understood and may change the model's results: {}{}",
                              count, count == 1 ? " is" : "s are", fmt::join(names, ", "),
                              names.size() < count ? ", …" : ""));
}

}  // namespace kvern::import::hf
