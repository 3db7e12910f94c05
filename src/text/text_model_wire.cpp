// The binary form of a TextModel. Since format 2 it is a list of parts {tag, size, bytes}; a part
// that a plan lacks keeps its default, so that parts can be added without a new format. Format 1
// began with the tokenizer's kind, 0 or 1, where kFormat stands now.
#include <fmt/format.h>

#include "base/wire.h"
#include "kvern/error.h"
#include "text/text_model.h"

namespace kvern::text {
namespace {

constexpr uint8_t kFormat = 0x82;

// Values never change.
enum class Part : uint8_t {
  kKind = 1,
  kTokens = 2,
  kMerges = 3,
  kScores32 = 4,
  kScores64 = 5,
  kAddedTokens = 6,
  kNormalizers = 7,
  kSplits = 8,
  kDecoders = 9,
  kFlags = 10,
  kSpecialIds = 11,
  kStopIds = 12,
  kPrefixIds = 13,
  kSuffixIds = 14,
  kChatTemplate = 15,
  kChatTemplates = 16,
};

template <class Enum>
Enum read_enum(WireReader& in, uint8_t first, uint8_t last, std::string_view name) {
  const auto value = in.number<uint8_t>(name);
  if (value < first || value > last) {
    in.fail(name,
            fmt::format("{} is none of the known values {} to {}; this plan is damaged or was "
                        "made by a newer Kvern",
                        value, first, last));
  }
  return static_cast<Enum>(value);
}

bool read_flag(WireReader& in, std::string_view name) {
  const auto value = in.number<uint8_t>(name);
  if (value > 1) in.fail(name, fmt::format("a flag is 0 or 1, not {}", value));
  return value == 1;
}

void write_optional(WireWriter& out, const std::optional<int32_t>& id) {
  out.number<int32_t>(id.value_or(-1));
}

std::optional<int32_t> read_optional(WireReader& in, std::string_view name) {
  const auto id = in.number<int32_t>(name);
  if (id < -1) in.fail(name, fmt::format("{} is no token id", id));
  return id == -1 ? std::nullopt : std::optional<int32_t>(id);
}

void write_ids(WireWriter& out, const std::vector<int32_t>& ids) {
  out.number(static_cast<uint32_t>(ids.size()));
  for (const int32_t id : ids) out.number(id);
}

std::vector<int32_t> read_ids(WireReader& in, std::string_view name) {
  std::vector<int32_t> ids;
  const uint32_t count = in.count(sizeof(int32_t), name);
  ids.reserve(count);
  for (uint32_t i = 0; i < count; ++i) ids.push_back(in.number<int32_t>(name));
  return ids;
}

void write_tokens(WireWriter& out, const TextModel& model) {
  out.number(static_cast<uint32_t>(model.tokens.size()));
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    out.number(static_cast<uint8_t>(model.token_types[i]));
    out.string(model.tokens[i]);
  }
}

void read_tokens(WireReader& in, TextModel& model) {
  const uint32_t count = in.count(sizeof(uint8_t) + sizeof(uint32_t), "vocabulary");
  model.token_types.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    model.token_types.push_back(read_enum<TokenType>(in, 1, 6, "token type"));
    model.tokens.push_back(in.string("token"));
  }
}

void write_merges(WireWriter& out, const std::vector<Merge>& merges) {
  out.number(static_cast<uint32_t>(merges.size()));
  for (const Merge& merge : merges) {
    out.number(merge.left);
    out.number(merge.right);
  }
}

void read_merges(WireReader& in, TextModel& model) {
  const uint32_t count = in.count(2 * sizeof(int32_t), "merges");
  model.merges.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto left = in.number<int32_t>("merge");
    model.merges.push_back({left, in.number<int32_t>("merge")});
  }
}

bool fit_float(const std::vector<double>& scores) {
  for (const double score : scores) {
    if (static_cast<double>(static_cast<float>(score)) != score) return false;
  }
  return true;
}

template <class T>
void write_scores(WireWriter& out, const std::vector<double>& scores) {
  out.number(static_cast<uint32_t>(scores.size()));
  for (const double score : scores) out.number(static_cast<T>(score));
}

template <class T>
void read_scores(WireReader& in, TextModel& model) {
  const uint32_t count = in.count(sizeof(T), "scores");
  model.scores.reserve(count);
  for (uint32_t i = 0; i < count; ++i) model.scores.push_back(in.number<T>("score"));
}

void write_added(WireWriter& out, const std::vector<AddedToken>& added_tokens) {
  out.number(static_cast<uint32_t>(added_tokens.size()));
  for (const AddedToken& added : added_tokens) {
    out.number(added.id);
    out.number(static_cast<uint8_t>(added.left_strip | added.right_strip << 1 |
                                    added.single_word << 2 | added.normalized << 3));
  }
}

void read_added(WireReader& in, TextModel& model) {
  const uint32_t count = in.count(sizeof(int32_t) + sizeof(uint8_t), "added tokens");
  model.added_tokens.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    AddedToken added;
    added.id = in.number<int32_t>("added token");
    const auto flags = in.number<uint8_t>("added token");
    if (flags > 15) in.fail("added token", fmt::format("flags {} are not known", flags));
    added.left_strip = (flags & 1) != 0;
    added.right_strip = (flags & 2) != 0;
    added.single_word = (flags & 4) != 0;
    added.normalized = (flags & 8) != 0;
    model.added_tokens.push_back(added);
  }
}

void write_steps(WireWriter& out, const std::vector<Step>& steps) {
  out.number(static_cast<uint32_t>(steps.size()));
  for (const Step& step : steps) {
    out.number(static_cast<uint8_t>(step.kind));
    out.string(step.text);
    out.string(step.with);
    out.number(static_cast<uint8_t>(step.behavior));
    out.number(static_cast<uint8_t>(step.invert));
    out.number(step.left);
    out.number(step.right);
  }
}

std::vector<Step> read_steps(WireReader& in, std::string_view name) {
  std::vector<Step> steps;
  const uint32_t count = in.count(19, name, /*max_count=*/256);
  for (uint32_t i = 0; i < count; ++i) {
    Step step;
    step.kind = read_enum<StepKind>(in, 1, 66, name);  // which kinds fit is the tokenizer's to say
    step.text = in.string(name);
    step.with = in.string(name);
    step.behavior = read_enum<SplitBehavior>(in, 0, 4, name);
    step.invert = read_flag(in, name);
    step.left = in.number<int32_t>(name);
    step.right = in.number<int32_t>(name);
    steps.push_back(std::move(step));
  }
  return steps;
}

void write_flags(WireWriter& out, const TextModel& model) {
  for (const bool flag : {model.byte_fallback, model.use_unk, model.fuse_unk, model.ignore_merges,
                          model.add_bos, model.add_eos}) {
    out.number(static_cast<uint8_t>(flag));
  }
}

void read_flags(WireReader& in, TextModel& model) {
  for (bool* flag : {&model.byte_fallback, &model.use_unk, &model.fuse_unk, &model.ignore_merges,
                     &model.add_bos, &model.add_eos}) {
    *flag = read_flag(in, "flag");
  }
}

void write_special_ids(WireWriter& out, const TextModel& model) {
  for (const auto& id : {model.bos_id, model.eos_id, model.pad_id, model.unk_id}) {
    write_optional(out, id);
  }
}

void read_special_ids(WireReader& in, TextModel& model) {
  model.bos_id = read_optional(in, "bos id");
  model.eos_id = read_optional(in, "eos id");
  model.pad_id = read_optional(in, "pad id");
  model.unk_id = read_optional(in, "unk id");
}

void write_templates(WireWriter& out, const std::vector<NamedTemplate>& templates) {
  out.number(static_cast<uint32_t>(templates.size()));
  for (const NamedTemplate& named : templates) {
    out.string(named.name);
    out.string(named.source);
  }
}

void read_templates(WireReader& in, TextModel& model) {
  const uint32_t count = in.count(2 * sizeof(uint32_t), "chat templates");
  for (uint32_t i = 0; i < count; ++i) {
    std::string name = in.string("chat template");
    model.chat_templates.push_back({std::move(name), in.string("chat template")});
  }
}

struct PartForm {
  Part part;
  bool (*wanted)(const TextModel&);
  void (*write)(WireWriter&, const TextModel&);
  void (*read)(WireReader&, TextModel&);
};

// In the order in which they are written.
constexpr PartForm kParts[] = {
    {Part::kKind, [](const TextModel&) { return true; },
     [](WireWriter& out, const TextModel& m) { out.number(static_cast<uint8_t>(m.kind)); },
     [](WireReader& in, TextModel& m) {
       m.kind = read_enum<TokenizerKind>(in, 0, 3, "tokenizer kind");
     }},
    {Part::kTokens, [](const TextModel& m) { return !m.tokens.empty(); }, write_tokens,
     read_tokens},
    {Part::kMerges, [](const TextModel& m) { return !m.merges.empty(); },
     [](WireWriter& out, const TextModel& m) { write_merges(out, m.merges); }, read_merges},
    {Part::kScores32, [](const TextModel& m) { return !m.scores.empty() && fit_float(m.scores); },
     [](WireWriter& out, const TextModel& m) { write_scores<float>(out, m.scores); },
     read_scores<float>},
    {Part::kScores64, [](const TextModel& m) { return !fit_float(m.scores); },
     [](WireWriter& out, const TextModel& m) { write_scores<double>(out, m.scores); },
     read_scores<double>},
    {Part::kAddedTokens, [](const TextModel& m) { return !m.added_tokens.empty(); },
     [](WireWriter& out, const TextModel& m) { write_added(out, m.added_tokens); }, read_added},
    {Part::kNormalizers, [](const TextModel& m) { return !m.normalizers.empty(); },
     [](WireWriter& out, const TextModel& m) { write_steps(out, m.normalizers); },
     [](WireReader& in, TextModel& m) { m.normalizers = read_steps(in, "normaliser"); }},
    {Part::kSplits, [](const TextModel& m) { return !m.splits.empty(); },
     [](WireWriter& out, const TextModel& m) { write_steps(out, m.splits); },
     [](WireReader& in, TextModel& m) { m.splits = read_steps(in, "split"); }},
    {Part::kDecoders, [](const TextModel& m) { return !m.decoders.empty(); },
     [](WireWriter& out, const TextModel& m) { write_steps(out, m.decoders); },
     [](WireReader& in, TextModel& m) { m.decoders = read_steps(in, "decoder"); }},
    {Part::kFlags, [](const TextModel&) { return true; }, write_flags, read_flags},
    {Part::kSpecialIds, [](const TextModel&) { return true; }, write_special_ids, read_special_ids},
    {Part::kStopIds, [](const TextModel& m) { return !m.stop_ids.empty(); },
     [](WireWriter& out, const TextModel& m) { write_ids(out, m.stop_ids); },
     [](WireReader& in, TextModel& m) { m.stop_ids = read_ids(in, "stop ids"); }},
    {Part::kPrefixIds, [](const TextModel& m) { return !m.prefix_ids.empty(); },
     [](WireWriter& out, const TextModel& m) { write_ids(out, m.prefix_ids); },
     [](WireReader& in, TextModel& m) { m.prefix_ids = read_ids(in, "prefix ids"); }},
    {Part::kSuffixIds, [](const TextModel& m) { return !m.suffix_ids.empty(); },
     [](WireWriter& out, const TextModel& m) { write_ids(out, m.suffix_ids); },
     [](WireReader& in, TextModel& m) { m.suffix_ids = read_ids(in, "suffix ids"); }},
    {Part::kChatTemplate, [](const TextModel& m) { return !m.chat_template.empty(); },
     [](WireWriter& out, const TextModel& m) { out.string(m.chat_template); },
     [](WireReader& in, TextModel& m) { m.chat_template = in.string("chat template"); }},
    {Part::kChatTemplates, [](const TextModel& m) { return !m.chat_templates.empty(); },
     [](WireWriter& out, const TextModel& m) { write_templates(out, m.chat_templates); },
     read_templates},
};

TextModel read_parts(WireReader& in) {
  TextModel model;
  const uint32_t num_parts = in.count(sizeof(uint8_t) + sizeof(uint32_t), "text model", 255);
  int last_tag = 0;
  for (uint32_t i = 0; i < num_parts; ++i) {
    const auto tag = in.number<uint8_t>("part");
    const auto size = in.number<uint32_t>("part");
    const PartForm* form = nullptr;
    for (const PartForm& known : kParts) {
      if (static_cast<uint8_t>(known.part) == tag) form = &known;
    }
    if (form == nullptr) {
      in.fail("text model", fmt::format("part {} is not known; this plan is damaged or was made "
                                        "by a newer Kvern",
                                        tag));
    }
    if (tag <= last_tag) in.fail("text model", "its parts are out of order");
    last_tag = tag;
    WireReader part(in.bytes(size, "part"), "text model");
    form->read(part, model);
    part.expect_end();
  }
  return model;
}

TextModel read_format_1(WireReader& in, uint8_t kind) {
  TextModel model;
  model.kind = static_cast<TokenizerKind>(kind);
  const auto scanner = read_enum<Scanner>(in, 0, 1, "pre-tokenizer");
  if (kind != 0) model.splits.push_back(scan_step(scanner));
  read_tokens(in, model);
  read_merges(in, model);
  read_special_ids(in, model);
  model.stop_ids = read_ids(in, "stop ids");
  model.add_bos = read_flag(in, "add bos");
  model.add_eos = read_flag(in, "add eos");
  model.chat_template = in.string("chat template");
  return model;
}

}  // namespace

void write_text_model(WireWriter& out, const TextModel& model) {
  out.number(kFormat);
  uint32_t num_parts = 0;
  for (const PartForm& form : kParts) num_parts += form.wanted(model) ? 1 : 0;
  out.number(num_parts);
  for (const PartForm& form : kParts) {
    if (!form.wanted(model)) continue;
    WireWriter part;
    form.write(part, model);
    out.number(static_cast<uint8_t>(form.part));
    out.string(std::string_view(part.bytes().data(), part.bytes().size()));
  }
}

TextModel read_text_model(WireReader& in) {
  const auto format = in.number<uint8_t>("text model");
  if (format > 1 && format != kFormat) {
    in.fail("text model", fmt::format("form {} is not known; this plan is damaged or was made by "
                                      "a newer Kvern",
                                      format));
  }
  TextModel model = format == kFormat ? read_parts(in) : read_format_1(in, format);
  try {
    model.validate();
  } catch (const Error& error) {
    in.fail("text model", error.what());
  }
  return model;
}

}  // namespace kvern::text
