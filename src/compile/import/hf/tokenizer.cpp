#include "compile/import/hf/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "compile/import/hf/config.h"
#include "compile/import/hf/folder.h"
#include "compile/import/hf/tokenizer_json.h"
#include "compile/import/hf/tokenizer_model.h"

namespace kvern::import::hf {
namespace {

constexpr uint64_t kMaxTokenizer_bytes = uint64_t{512} << 20;
constexpr uint64_t kMaxConfig_bytes = uint64_t{64} << 20;
constexpr uint64_t kMaxTemplate_bytes = uint64_t{4} << 20;

std::string path_of(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

bool exists(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  return std::filesystem::exists(path_of(folder, name), ignored);
}

// The tree of a file that may be missing: then an empty object.
Tree read_optional_tree(const std::string& folder, const std::string& name) {
  Tree tree{.kind = Tree::Kind::kObject};
  if (!exists(folder, name)) return tree;
  const std::string path = file_of(folder, name);
  tree = parse_tree(read_text_file(path, kMaxConfig_bytes), path);
  TreeView(tree, path, "").expect(Tree::Kind::kObject, "an object");
  return tree;
}

// A token as the files write it: a string, or an object with `content`. Empty: none.
std::string token_of(const TreeView& view, const char* key) {
  if (!view.has(key)) return "";
  const TreeView token = view.at(key);
  if (token.tree().kind == Tree::Kind::kString) return token.as_string();
  return token.string_or("content", "");
}

void add_decoder_tokens(const TreeView& config, AddedTokens& tokens) {
  if (!config.has("added_tokens_decoder")) return;
  const TreeView entries = config.at("added_tokens_decoder");
  entries.expect(Tree::Kind::kObject, "an object of ids and tokens");
  struct Entry {
    int32_t id;
    size_t index;
  };
  std::vector<Entry> order;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string& key = entries.tree().keys[i];
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      entries.fail(fmt::format("'{}' is no token id", key));
    }
    order.push_back({id, i});
  }
  std::ranges::stable_sort(order, {}, &Entry::id);
  for (const Entry& entry : order) {
    tokens.add(entries.item(entry.index), entry.id, AddedTokens::Flags::kKeep);
  }
}

void add_listed_tokens(const std::string& folder, AddedTokens& tokens) {
  const Tree tree = read_optional_tree(folder, "added_tokens.json");
  const std::string path = path_of(folder, "added_tokens.json");
  const TreeView view(tree, path, "");
  std::vector<std::pair<int32_t, std::string>> order;
  for (size_t i = 0; i < view.size(); ++i) {
    order.emplace_back(view.item(i).as_integer(), tree.keys[i]);
  }
  std::ranges::sort(order);
  for (const auto& [id, content] : order) {
    if (!tokens.find(content)) tokens.add_special(view, content, id);
  }
}

// bos, eos, …: tokenizer_config.json's word, else special_tokens_map.json's, else what is there.
void set_special(const TreeView& config, const TreeView& map, const char* key, AddedTokens& tokens,
                 std::optional<int32_t>& id) {
  std::string name = token_of(config, key);
  if (name.empty()) name = token_of(map, key);
  if (name.empty()) return;
  const auto found = tokens.find(name);
  if (!found) {
    config.fail(fmt::format("'{}' is '{}', which the vocabulary lacks", key, name));
  }
  tokens.add_special(config, name, *found);  // is one from now on, if it was an ordinary token
  id = found;
}

void read_special_tokens(const std::string& folder, const TreeView& config,
                         text::TextModel& model) {
  AddedTokens tokens(model);
  add_decoder_tokens(config, tokens);
  add_listed_tokens(folder, tokens);
  const Tree map_tree = read_optional_tree(folder, "special_tokens_map.json");
  const std::string map_path = path_of(folder, "special_tokens_map.json");
  const TreeView map(map_tree, map_path, "");
  set_special(config, map, "bos_token", tokens, model.bos_id);
  set_special(config, map, "eos_token", tokens, model.eos_id);
  set_special(config, map, "pad_token", tokens, model.pad_id);
  if (!model.use_unk) set_special(config, map, "unk_token", tokens, model.unk_id);
  if (model.eos_id) model.stop_ids = {*model.eos_id};
}

// The template's own ids are bos and eos in nearly every model: then the flags say it.
void name_ids_around(text::TextModel& model) {
  if (model.bos_id && model.prefix_ids == std::vector{*model.bos_id}) {
    model.add_bos = true;
    model.prefix_ids.clear();
  }
  if (model.eos_id && model.suffix_ids == std::vector{*model.eos_id}) {
    model.add_eos = true;
    model.suffix_ids.clear();
  }
}

void add_template(std::string name, std::string source, text::TextModel& model) {
  for (text::NamedTemplate& named : model.chat_templates) {
    if (named.name == name) {
      named.source = std::move(source);
      return;
    }
  }
  model.chat_templates.push_back({std::move(name), std::move(source)});
}

void read_config_templates(const TreeView& config, text::TextModel& model) {
  if (!config.has("chat_template")) return;
  const TreeView field = config.at("chat_template");
  if (field.tree().kind == Tree::Kind::kString) {
    add_template("default", field.as_string(), model);
    return;
  }
  field.expect(Tree::Kind::kArray, "a template or a list of named ones");
  for (size_t i = 0; i < field.size(); ++i) {
    const TreeView entry = field.item(i);
    add_template(entry.string("name"), entry.string("template"), model);
  }
}

void read_template_folder(const std::string& folder, text::TextModel& model) {
  const std::filesystem::path path = std::filesystem::path(folder) / kTemplateFolder;
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  }
  std::ranges::sort(files);  // plans do not depend on the order of a folder
  for (const auto& file : files) {
    const std::string name = fmt::format("{}/{}", kTemplateFolder, file.filename().string());
    add_template(file.stem().string(), read_text_file(file_of(folder, name), kMaxTemplate_bytes),
                 model);
  }
}

// Files of their own win over the configuration's.
void read_chat_templates(const std::string& folder, const TreeView& config,
                         text::TextModel& model) {
  read_config_templates(config, model);
  const Tree tree = read_optional_tree(folder, "chat_template.json");
  const std::string path = path_of(folder, "chat_template.json");
  read_config_templates(TreeView(tree, path, ""), model);
  if (exists(folder, "chat_template.jinja")) {
    add_template("default",
                 read_text_file(file_of(folder, "chat_template.jinja"), kMaxTemplate_bytes), model);
  }
  read_template_folder(folder, model);
  std::ranges::stable_partition(model.chat_templates, [](const text::NamedTemplate& named) {
    return named.name == "default";
  });
  if (model.chat_templates.empty()) return;
  if (model.chat_templates[0].name == "default") {
    model.chat_template = model.chat_templates[0].source;
    if (model.chat_templates.size() == 1) model.chat_templates.clear();
  }
}

text::TextModel read_sentencepiece(const std::string& folder, const TreeView& config) {
  const MappedFile file(file_of(folder, "tokenizer.model"));
  const SentencePieceOverrides overrides = {
      .prefix_at_start_only = !config.bool_or("legacy", true),
      .no_space_prefix = !config.bool_or("add_prefix_space", true)};
  text::TextModel model = read_tokenizer_model(file.bytes(), file.path(), overrides);
  model.add_bos = config.bool_or("add_bos_token", model.bos_id.has_value());
  model.add_eos = config.bool_or("add_eos_token", false);
  return model;
}

}  // namespace

text::TextModel read_tokenizer(const std::string& folder) {
  const std::string config_path = path_of(folder, "tokenizer_config.json");
  const Tree config_tree = read_optional_tree(folder, "tokenizer_config.json");
  const TreeView config(config_tree, config_path, "");
  text::TextModel model;
  if (exists(folder, "tokenizer.json")) {
    const MappedFile file(file_of(folder, "tokenizer.json"));
    if (file.bytes().size() > kMaxTokenizer_bytes) {
      fail(file.path(), fmt::format("larger than {} bytes", kMaxTokenizer_bytes));
    }
    const auto* data = reinterpret_cast<const char*>(file.bytes().data());
    model = read_tokenizer_json({data, file.bytes().size()}, file.path());
  } else if (exists(folder, "tokenizer.model")) {
    model = read_sentencepiece(folder, config);
  } else {
    return model;
  }
  read_special_tokens(folder, config, model);
  name_ids_around(model);
  if ((model.add_bos && !model.bos_id) || (model.add_eos && !model.eos_id)) {
    fail(config_path, "asks for a bos or eos token around every text, but names none");
  }
  read_chat_templates(folder, config, model);
  model.validate();
  return model;
}

}  // namespace kvern::import::hf
