#include "compile/import/hf/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/import/hf/config.h"

namespace kvern::import::hf {
namespace {

void read_bpe_vocabulary(const TreeView& vocab, text::TextModel& model) {
  vocab.expect(Tree::Kind::kObject, "an object of tokens and ids");
  const size_t size = vocab.size();
  std::vector<size_t> order(size);
  for (size_t i = 0; i < size; ++i) order[i] = i;
  std::vector<int32_t> ids(size);
  for (size_t i = 0; i < size; ++i) ids[i] = vocab.item(i).as_integer();
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ids[i]; });
  TokenPlaces places(model);
  for (const size_t i : order) places.put(vocab, ids[i], vocab.tree().keys[i]);
}

void read_merges(const TreeView& merges, text::TextModel& model) {
  merges.expect(Tree::Kind::kArray, "a list of merges");
  if (merges.size() == 0) return;
  if (merges.tree().items[0].kind == Tree::Kind::kString) {
    std::vector<std::string> lines;
    lines.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      lines.push_back(merges.item(i).as_string());
      if (i == 0 && lines[0].starts_with("#version")) lines.clear();
    }
    model.merges = text::parse_merges(model.tokens, lines);
    return;
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const TreeView pair = merges.item(i);
    pair.expect(Tree::Kind::kArray, "two tokens");
    if (pair.size() != 2) pair.fail("must be two tokens");
    pairs.emplace_back(pair.item(0).as_string(), pair.item(1).as_string());
  }
  model.merges = text::resolve_merges(model.tokens, pairs);
}

void mark_byte_tokens(text::TextModel& model) {
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    if (text::byte_of_token(model.tokens[i])) model.token_types[i] = text::TokenType::kByte;
  }
}

void set_unknown(const TreeView& view, const std::string& token, text::TextModel& model) {
  const auto found = std::ranges::find(model.tokens, token);
  if (found == model.tokens.end()) {
    if (model.kind == text::TokenizerKind::kByteLevelBpe) return;  // every byte is known
    view.fail(fmt::format("unk_token '{}' is not in the vocabulary", token));
  }
  model.unk_id = static_cast<int32_t>(found - model.tokens.begin());
  model.use_unk = true;
}

void read_bpe(const TreeView& view, text::TextModel& model) {
  view.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
             "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (view.has("dropout") && view.at("dropout").as_number() != 0) {
    view.unsupported("'dropout' makes ids random; set it to null");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!view.string_or(key, "").empty()) {
      view.unsupported(
          fmt::format("'{}' is '{}'; only tokenizers without one work", key, view.string(key)));
    }
  }
  read_bpe_vocabulary(view.at("vocab"), model);
  read_merges(view.at("merges"), model);
  model.fuse_unk = view.bool_or("fuse_unk", false);
  model.byte_fallback = view.bool_or("byte_fallback", false);
  model.ignore_merges = view.bool_or("ignore_merges", false);
  if (view.has("unk_token")) set_unknown(view, view.string("unk_token"), model);
}

void read_unigram(const TreeView& view, text::TextModel& model) {
  view.only({"type", "unk_id", "vocab", "byte_fallback"});
  const TreeView vocab = view.at("vocab");
  vocab.expect(Tree::Kind::kArray, "a list of pieces and scores");
  for (size_t i = 0; i < vocab.size(); ++i) {
    const TreeView entry = vocab.item(i);
    entry.expect(Tree::Kind::kArray, "a piece and its score");
    if (entry.size() != 2) entry.fail("must be a piece and its score");
    model.tokens.push_back(entry.item(0).as_string());
    model.scores.push_back(entry.item(1).as_number());
    model.token_types.push_back(text::TokenType::kNormal);
  }
  model.byte_fallback = view.bool_or("byte_fallback", false);
  model.fuse_unk = true;
  if (!view.has("unk_id")) return;
  model.unk_id = view.integer("unk_id");
  model.use_unk = true;
}

void read_model(const TreeView& view, bool byte_level, text::TextModel& model) {
  view.expect(Tree::Kind::kObject, "an object");
  const std::string type = view.string_or("type", view.has("merges") ? "BPE" : "none");
  if (type == "BPE") {
    model.kind = byte_level ? text::TokenizerKind::kByteLevelBpe : text::TokenizerKind::kBpe;
    read_bpe(view, model);
  } else if (type == "Unigram") {
    if (byte_level) view.unsupported("a Unigram model on ByteLevel's characters");
    model.kind = text::TokenizerKind::kUnigram;
    read_unigram(view, model);
  } else {
    view.unsupported(fmt::format("models of type '{}'; BPE and Unigram work", type));
  }
  if (byte_level && model.byte_fallback) {
    view.unsupported("'byte_fallback' beside a ByteLevel pre-tokenizer");
  }
  if (model.byte_fallback) mark_byte_tokens(model);
}

}  // namespace

text::TextModel read_tokenizer_json(std::string_view bytes, const std::string& file) {
  const Tree tree = parse_tree(bytes, file);
  const TreeView view(tree, file, "");
  view.expect(Tree::Kind::kObject, "an object");
  // Truncation and padding are for callers of the library, who set them anew for every text.
  view.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"});
  text::TextModel model;
  if (view.has("normalizer")) read_normalizer(view.at("normalizer"), model);
  const bool byte_level =
      view.has("pre_tokenizer") && read_pre_tokenizer(view.at("pre_tokenizer"), model);
  read_model(view.at("model"), byte_level, model);
  if (view.has("added_tokens")) {
    const TreeView added = view.at("added_tokens");
    added.expect(Tree::Kind::kArray, "a list of tokens");
    AddedTokens tokens(model);
    for (size_t i = 0; i < added.size(); ++i) {
      const TreeView entry = added.item(i);
      tokens.add(entry, entry.integer("id"), AddedTokens::Flags::kReplace);
    }
  }
  if (view.has("post_processor")) read_post_processor(view.at("post_processor"), model);
  const bool bytes_decoded = view.has("decoder") && read_decoder(view.at("decoder"), model);
  if (bytes_decoded != byte_level) {
    view.unsupported("the pre-tokenizer and the decoder must both be ByteLevel, or neither");
  }
  if (!view.has("decoder")) {
    view.unsupported("no decoder, which puts a space between any two tokens");
  }
  model.validate();
  model.require_unknown();
  return model;
}

}  // namespace kvern::import::hf
