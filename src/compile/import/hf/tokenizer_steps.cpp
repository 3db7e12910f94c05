// The parts of tokenizer.json that are steps: normalizer, pre_tokenizer, post_processor, decoder.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compile/import/hf/tokenizer_json.h"
#include "text/chars_map.h"
#include "text/known_patterns.h"
#include "text/regex.h"

namespace kvern::import::hf {
namespace {

using text::Step;
using text::StepKind;

constexpr size_t kMaxSteps = 64;

// The elements of a Sequence, Sequences in it opened too; anything else is its own element.
void flatten(const TreeView& view, const char* list, std::vector<TreeView>& out) {
  view.expect(Tree::Kind::kObject, "an object");
  if (out.size() > kMaxSteps) view.unsupported(fmt::format("more than {} steps", kMaxSteps));
  if (view.string("type") != "Sequence") {
    out.push_back(view);
    return;
  }
  view.only({"type", list});
  const TreeView items = view.at(list);
  items.expect(Tree::Kind::kArray, "a list");
  for (size_t i = 0; i < items.size(); ++i) flatten(items.item(i), list, out);
}

std::vector<TreeView> flattened(const TreeView& view, const char* list) {
  std::vector<TreeView> out;
  flatten(view, list, out);
  return out;
}

struct Pattern {
  std::string text;
  bool regex;
};

Pattern read_pattern(const TreeView& view) {
  const TreeView pattern = view.at("pattern");
  if (pattern.tree().kind == Tree::Kind::kString) return {pattern.as_string(), false};
  pattern.only({"String", "Regex"});
  const bool regex = pattern.has("Regex");
  Pattern out{pattern.string(regex ? "Regex" : "String"), regex};
  if (regex) text::Regex{out.text};  // what cannot be searched is refused here, not at load
  return out;
}

std::string decode_base64(const TreeView& view, std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (c == '=') break;
    if (value < 0) view.fail("is not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    out.push_back(static_cast<char>(bits >> num_bits & 0xFF));
  }
  return out;
}

// --- normalizer ---------------------------------------------------------------------------------

Step replace_step(const TreeView& view) {
  view.only({"type", "pattern", "content"});
  const Pattern pattern = read_pattern(view);
  return {.kind = pattern.regex ? StepKind::kReplaceRegex : StepKind::kReplace,
          .text = pattern.text,
          .with = view.string("content")};
}

Step plain_step(const TreeView& view, StepKind kind) {
  view.only({"type"});
  return {.kind = kind};
}

Step normalizer_step(const TreeView& view) {
  struct Plain {
    std::string_view name;
    StepKind kind;
  };
  constexpr Plain kPlain[] = {{"NFC", StepKind::kNfc},
                              {"NFD", StepKind::kNfd},
                              {"NFKC", StepKind::kNfkc},
                              {"NFKD", StepKind::kNfkd},
                              {"Nmt", StepKind::kNmt},
                              {"Lowercase", StepKind::kLowercase},
                              {"StripAccents", StepKind::kStripAccents}};
  const std::string type = view.string("type");
  for (const Plain& plain : kPlain) {
    if (plain.name == type) return plain_step(view, plain.kind);
  }
  if (type == "Prepend") {
    view.only({"type", "prepend"});
    return {.kind = StepKind::kPrepend, .text = view.string("prepend")};
  }
  if (type == "Replace") return replace_step(view);
  if (type == "Strip") {
    view.only({"type", "strip_left", "strip_right"});
    return {.kind = StepKind::kStrip,
            .left = view.bool_or("strip_left", true) ? 1 : 0,
            .right = view.bool_or("strip_right", true) ? 1 : 0};
  }
  if (type == "Precompiled") {
    view.only({"type", "precompiled_charsmap"});
    const TreeView map = view.at("precompiled_charsmap");
    return {.kind = StepKind::kCharsMap,
            .text = decode_base64(map, map.as_string()),
            .left = static_cast<int32_t>(text::CharsMapMode::kGraphemes)};
  }
  view.unsupported(
      fmt::format("the normalizer '{}'; NFC, NFD, NFKC, NFKD, Lowercase, Nmt, "
                  "Precompiled, Prepend, Replace, Sequence, Strip and StripAccents "
                  "work",
                  type));
}

// --- pre_tokenizer ------------------------------------------------------------------------------

text::SplitBehavior read_behavior(const TreeView& view, const char* otherwise) {
  constexpr std::array<std::string_view, 5> kNames = {"Isolated", "Removed", "MergedWithPrevious",
                                                      "MergedWithNext", "Contiguous"};
  const std::string name = view.string_or("behavior", otherwise);
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) view.unsupported(fmt::format("the behavior '{}'", name));
  return static_cast<text::SplitBehavior>(found - kNames.begin());
}

Step split_step(const TreeView& view) {
  view.only({"type", "pattern", "behavior", "invert"});
  const Pattern pattern = read_pattern(view);
  const text::SplitBehavior behavior = read_behavior(view, "Isolated");
  const bool invert = view.bool_or("invert", false);
  // Known patterns match all of a text: whether what lies between is kept has no meaning.
  const bool keeps_matches = behavior == text::SplitBehavior::kIsolated ||
                             (behavior == text::SplitBehavior::kRemoved && invert);
  const auto scanner = text::scanner_of_pattern(pattern.text);
  if (pattern.regex && scanner && keeps_matches) return text::scan_step(*scanner);
  return {.kind = pattern.regex ? StepKind::kSplitRegex : StepKind::kSplitText,
          .text = pattern.text,
          .behavior = behavior,
          .invert = invert};
}

int32_t read_prepend_scheme(const TreeView& view) {
  constexpr std::array<std::string_view, 3> kNames = {"never", "always", "first"};
  const bool by_default = view.bool_or("add_prefix_space", true);
  const std::string name = view.string_or("prepend_scheme", by_default ? "always" : "never");
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) view.unsupported(fmt::format("the prepend_scheme '{}'", name));
  return static_cast<int32_t>(found - kNames.begin());
}

Step metaspace_step(const TreeView& view) {
  view.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  return {.kind = StepKind::kMetaspace,
          .text = view.string("replacement"),
          .left = read_prepend_scheme(view),
          .right = view.bool_or("split", true) ? 1 : 0};
}

void add_byte_level(const TreeView& view, std::vector<Step>& steps) {
  view.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (view.bool_or("add_prefix_space", true)) steps.push_back({.kind = StepKind::kPrependSpace});
  if (view.bool_or("use_regex", true)) steps.push_back(text::scan_step(text::Scanner::kGpt2));
}

Step pre_tokenizer_step(const TreeView& view) {
  const std::string type = view.string("type");
  if (type == "Split") return split_step(view);
  if (type == "Metaspace") return metaspace_step(view);
  if (type == "Whitespace") return plain_step(view, StepKind::kWords);
  if (type == "WhitespaceSplit") return plain_step(view, StepKind::kSplitSpaces);
  if (type == "BertPreTokenizer") return plain_step(view, StepKind::kBertWords);
  if (type == "Digits") {
    view.only({"type", "individual_digits"});
    return {.kind = StepKind::kDigits, .left = view.bool_or("individual_digits", false) ? 1 : 0};
  }
  if (type == "Punctuation") {
    view.only({"type", "behavior"});
    return {.kind = StepKind::kPunctuation, .behavior = read_behavior(view, "Isolated")};
  }
  if (type == "CharDelimiterSplit") {
    view.only({"type", "delimiter"});
    return {.kind = StepKind::kSplitText,
            .text = view.string("delimiter"),
            .behavior = text::SplitBehavior::kRemoved};
  }
  view.unsupported(
      fmt::format("the pre-tokenizer '{}'; BertPreTokenizer, ByteLevel, "
                  "CharDelimiterSplit, Digits, Metaspace, Punctuation, Sequence, "
                  "Split, Whitespace and WhitespaceSplit work",
                  type));
}

// Two steps that one scanner does in one go.
void join_known(std::vector<Step>& steps) {
  if (steps.size() != 2 || steps[0].kind != StepKind::kDigits || steps[0].left == 0) return;
  if (steps[1] != text::scan_step(text::Scanner::kGpt2)) return;
  steps = {text::scan_step(text::Scanner::kSmolLm)};
}

// --- post_processor -----------------------------------------------------------------------------

void read_template(const TreeView& view, text::TextModel& model) {
  view.only({"type", "single", "pair", "special_tokens"});
  const TreeView single = view.at("single");
  single.expect(Tree::Kind::kArray, "a list");
  bool text_seen = false;
  for (size_t i = 0; i < single.size(); ++i) {
    const TreeView piece = single.item(i);
    if (piece.has("Sequence")) {
      if (text_seen) piece.unsupported("a template that holds the text twice");
      text_seen = true;
      continue;
    }
    const std::string name = piece.at("SpecialToken").string("id");
    const TreeView ids = view.at("special_tokens").at(name).at("ids");
    ids.expect(Tree::Kind::kArray, "a list of ids");
    for (size_t k = 0; k < ids.size(); ++k) {
      (text_seen ? model.suffix_ids : model.prefix_ids).push_back(ids.item(k).as_integer());
    }
  }
  if (!text_seen) view.fail("a template without the text");
}

int32_t id_of_pair(const TreeView& view, const char* key) {
  const TreeView pair = view.at(key);
  pair.expect(Tree::Kind::kArray, "a token and its id");
  if (pair.size() != 2) pair.fail("must be a token and its id");
  return pair.item(1).as_integer();
}

}  // namespace

void read_normalizer(const TreeView& view, text::TextModel& model) {
  for (const TreeView& step : flattened(view, "normalizers")) {
    model.normalizers.push_back(normalizer_step(step));
  }
}

bool read_pre_tokenizer(const TreeView& view, text::TextModel& model) {
  const std::vector<TreeView> steps = flattened(view, "pretokenizers");
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].string("type") != "ByteLevel") {
      model.splits.push_back(pre_tokenizer_step(steps[i]));
      continue;
    }
    if (i + 1 != steps.size()) {
      steps[i].unsupported("a ByteLevel pre-tokenizer that is not the last one");
    }
    add_byte_level(steps[i], model.splits);
    join_known(model.splits);
    return true;
  }
  return false;
}

void read_post_processor(const TreeView& view, text::TextModel& model) {
  for (const TreeView& step : flattened(view, "processors")) {
    const std::string type = step.string("type");
    if (type == "ByteLevel") continue;  // moves offsets alone
    if (type == "TemplateProcessing") {
      read_template(step, model);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      model.prefix_ids.push_back(id_of_pair(step, "cls"));
      model.suffix_ids.push_back(id_of_pair(step, "sep"));
    } else {
      step.unsupported(
          fmt::format("the post-processor '{}'; BertProcessing, ByteLevel, "
                      "RobertaProcessing, Sequence and TemplateProcessing work",
                      type));
    }
  }
}

bool read_decoder(const TreeView& view, text::TextModel& model) {
  bool bytes = false;
  for (const TreeView& step : flattened(view, "decoders")) {
    const std::string type = step.string("type");
    if (type == "ByteLevel") {
      bytes = true;
    } else if (type == "Metaspace") {
      Step metaspace = metaspace_step(step);
      metaspace.right = 0;
      model.decoders.push_back(std::move(metaspace));
    } else if (type == "Replace") {
      model.decoders.push_back(replace_step(step));
      if (model.decoders.back().kind != StepKind::kReplace) {
        step.unsupported("a decoder that replaces by a pattern");
      }
    } else if (type == "ByteFallback") {
      model.decoders.push_back(plain_step(step, StepKind::kByteFallback));
    } else if (type == "Fuse") {
      model.decoders.push_back(plain_step(step, StepKind::kFuse));
    } else if (type == "Strip") {
      step.only({"type", "content", "start", "stop"});
      model.decoders.push_back({.kind = StepKind::kStripText,
                                .text = step.string("content"),
                                .left = step.integer("start"),
                                .right = step.integer("stop")});
    } else {
      step.unsupported(
          fmt::format("the decoder '{}'; ByteFallback, ByteLevel, Fuse, Metaspace, "
                      "Replace, Sequence and Strip work",
                      type));
    }
  }
  if (bytes && std::ranges::any_of(model.decoders,
                                   [](const Step& step) { return step.kind != StepKind::kFuse; })) {
    view.unsupported("a ByteLevel decoder among others");
  }
  if (bytes) model.decoders.clear();
  return bytes;
}

}  // namespace kvern::import::hf
