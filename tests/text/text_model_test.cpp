#include "text/text_model.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "base/wire.h"
#include "tests/text/vocabulary.h"
#include "text/known_patterns.h"

namespace kvern::text {
namespace {

using testing::HasSubstr;

TextModel full_model() {
  TextModel model = tiny_model({"a b", "Ġ ab"}, Scanner::kSmolLm);
  model.bos_id = 1;
  model.eos_id = 2;
  model.stop_ids = {2, 256};
  model.add_bos = true;
  model.chat_template = "{{ messages }}";
  return model;
}

// With every part that the binary form has.
TextModel rich_model() {
  TextModel model = full_model();
  model.kind = TokenizerKind::kUnigram;
  for (size_t i = 0; i < model.tokens.size(); ++i)
    model.scores.push_back(-0.5 * static_cast<double>(i));
  model.added_tokens = {{.id = 5, .left_strip = true, .normalized = true},
                        {.id = 6, .right_strip = true, .single_word = true}};
  model.normalizers = {{.kind = StepKind::kPrepend, .text = " ", .left = 1},
                       {.kind = StepKind::kReplace, .text = " ", .with = "\u2581"}};
  model.splits = {{.kind = StepKind::kSplitRegex,
                   .text = "a+",
                   .behavior = SplitBehavior::kMergedWithNext,
                   .invert = true}};
  model.decoders = {{.kind = StepKind::kFuse},
                    {.kind = StepKind::kStripText, .text = " ", .left = 1, .right = 0}};
  model.unk_id = 7;
  model.byte_fallback = model.use_unk = model.fuse_unk = model.ignore_merges = true;
  model.prefix_ids = {1, 2};
  model.suffix_ids = {3};
  model.chat_templates = {{"default", "{{ messages }}"}, {"tool_use", "{{ tools }}"}};
  return model;
}

std::span<const std::byte> as_bytes(const std::vector<char>& bytes) {
  return std::as_bytes(std::span(bytes));
}

void expect_error(Code code, const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted one with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST(TextModel, ComesBackFromTheWire) {
  TextModel precise = rich_model();
  precise.scores[3] = 0.1;  // no float
  for (const TextModel& model : {full_model(), TextModel{}, rich_model(), precise}) {
    WireWriter out;
    write_text_model(out, model);
    WireReader in(as_bytes(out.bytes()), "test");
    EXPECT_EQ(read_text_model(in), model);
    in.expect_end();
  }
}

// Plans made before there were parts: kind, scanner, vocabulary, merges, ids, flags, template.
TEST(TextModel, FormatOneIsStillRead) {
  const TextModel model = full_model();
  WireWriter out;
  out.number<uint8_t>(1);
  out.number<uint8_t>(1);
  out.number(static_cast<uint32_t>(model.tokens.size()));
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    out.number(static_cast<uint8_t>(model.token_types[i]));
    out.string(model.tokens[i]);
  }
  out.number(static_cast<uint32_t>(model.merges.size()));
  for (const Merge& merge : model.merges) {
    out.number(merge.left);
    out.number(merge.right);
  }
  for (const int32_t id : {1, 2, -1, -1}) out.number(id);
  out.number<uint32_t>(2);
  for (const int32_t id : {2, 256}) out.number(id);
  out.number<uint8_t>(1);
  out.number<uint8_t>(0);
  out.string(model.chat_template);
  WireReader in(as_bytes(out.bytes()), "test");
  EXPECT_EQ(read_text_model(in), model);
  in.expect_end();
}

TEST(TextModel, PartsOfANewerKvernAreRefused) {
  for (const uint8_t tag : {0, 17, 255}) {
    WireWriter out;
    out.number<uint8_t>(0x82);
    out.number<uint32_t>(1);
    out.number<uint8_t>(tag);
    out.string("");
    WireReader in(as_bytes(out.bytes()), "test");
    expect_error(Code::kInvalidPlan, "newer Kvern", [&] { read_text_model(in); });
  }
}

TEST(TextModel, EveryCutIsRefused) {
  WireWriter out;
  write_text_model(out, rich_model());
  for (size_t size = 0; size < out.bytes().size(); size += 7) {
    WireReader in(as_bytes(out.bytes()).first(size), "test");
    EXPECT_THROW(read_text_model(in), Error) << size;
  }
}

TEST(TextModel, DamagedBytesGiveAnErrorOrAValidModel) {
  WireWriter out;
  write_text_model(out, rich_model());
  for (size_t at = 0; at < out.bytes().size(); ++at) {
    std::vector<char> damaged = out.bytes();
    damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
    WireReader in(as_bytes(damaged), "test");
    try {
      read_text_model(in).validate();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidPlan) << error.what();
    }
  }
}

TEST(TextModel, ValidateNamesTheContradiction) {
  const auto broken = [](const std::function<void(TextModel&)>& damage) {
    TextModel model = full_model();
    damage(model);
    return [model] { model.validate(); };
  };
  const Code code = Code::kInvalidModel;
  expect_error(code, "bos_token_id is 9999", broken([](TextModel& m) { m.bos_id = 9999; }));
  expect_error(code, "stop id is -3", broken([](TextModel& m) { m.stop_ids = {-3}; }));
  expect_error(code, "token types", broken([](TextModel& m) { m.token_types.pop_back(); }));
  expect_error(code, "token 5 has type 9",
               broken([](TextModel& m) { m.token_types[5] = static_cast<TokenType>(9); }));
  expect_error(code, "merge's right part", broken([](TextModel& m) { m.merges[0].right = 9999; }));
  expect_error(code, "vocabulary is empty", broken([](TextModel& m) {
                 m.tokens.clear();
                 m.token_types.clear();
               }));
}

// A NaN among its scores made a plan that was not equal to itself.
TEST(TextModel, NoTokenizerHasNoVocabulary) {
  const std::function<void(TextModel&)> additions[] = {
      [](TextModel& m) { m.tokens = {"a"}; },
      [](TextModel& m) { m.token_types = {TokenType::kNormal}; },
      [](TextModel& m) {
        m.merges = {Merge{0, 0}};
      },
      [](TextModel& m) { m.scores = {std::numeric_limits<double>::quiet_NaN()}; },
      [](TextModel& m) { m.added_tokens.emplace_back(); },
  };
  for (const auto& add : additions) {
    TextModel model;
    model.stop_ids = {7};
    EXPECT_NO_THROW(model.validate());
    add(model);
    expect_error(Code::kInvalidModel, "but a vocabulary", [&] { model.validate(); });
  }
}

TEST(TextModel, MergesMustBeTokens) {
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  EXPECT_EQ(parse_merges(tokens, std::vector<std::string>{"a b"}), (std::vector<Merge>{{0, 1}}));
  const Code code = Code::kInvalidModel;
  const auto parse = [&](const std::string& merge) {
    return [&tokens, merge] { parse_merges(tokens, std::vector<std::string>{merge}); };
  };
  expect_error(code, "needs the token 'c'", parse("a c"));
  expect_error(code, "needs the token 'ba'", parse("b a"));
  expect_error(code, "not two tokens", parse("ab"));
  expect_error(code, "not two tokens", parse("a "));
  expect_error(code, "not two tokens", parse(""));
}

TEST(TextModel, UnknownPreTokenizersAreRefusedByName) {
  EXPECT_EQ(pre_tokenizer_from_name("smollm").splits, std::vector{scan_step(Scanner::kSmolLm)});
  expect_error(Code::kUnsupported, "'nosuch'", [] { pre_tokenizer_from_name("nosuch"); });
  expect_error(Code::kUnsupported, "'default'", [] { pre_tokenizer_from_name("default"); });
}

TEST(TextModel, AUnigramVocabularyNeedsIdsForWhatItLacks) {
  TextModel model;
  model.kind = TokenizerKind::kUnigram;
  model.tokens = {"a"};
  EXPECT_THROW(model.require_unknown(), Error);
  model.byte_fallback = true;
  for (int byte = 0; byte < 255; ++byte) {
    char token[8];
    std::snprintf(token, sizeof(token), "<0x%02X>", byte);
    model.tokens.emplace_back(token);
  }
  EXPECT_THROW(model.require_unknown(), Error);
  model.tokens.emplace_back("<0xFF>");
  EXPECT_NO_THROW(model.require_unknown());
  model.byte_fallback = false;
  model.use_unk = true;
  EXPECT_NO_THROW(model.require_unknown());
}

TEST(TextModel, TokensThatAreSoughtInTextsAreShort) {
  TextModel model;
  model.kind = TokenizerKind::kByteLevelBpe;
  model.tokens = {std::string(4096, 'x'), std::string(5000, 'y')};
  model.token_types = {TokenType::kControl, TokenType::kNormal};
  EXPECT_NO_THROW(model.validate());
  model.token_types[1] = TokenType::kUserDefined;
  EXPECT_THROW(model.validate(), Error);
}

}  // namespace
}  // namespace kvern::text
