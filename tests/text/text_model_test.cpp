#include "text/text_model.h"

#include <gmock/gmock.h>

#include <functional>

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
  for (const TextModel& model : {full_model(), TextModel{}}) {
    WireWriter out;
    write_text_model(out, model);
    WireReader in(as_bytes(out.bytes()), "test");
    EXPECT_EQ(read_text_model(in), model);
    in.expect_end();
  }
}

TEST(TextModel, EveryCutIsRefused) {
  WireWriter out;
  write_text_model(out, full_model());
  for (size_t size = 0; size < out.bytes().size(); size += 7) {
    WireReader in(as_bytes(out.bytes()).first(size), "test");
    EXPECT_THROW(read_text_model(in), Error) << size;
  }
}

TEST(TextModel, DamagedBytesGiveAnErrorOrAValidModel) {
  WireWriter out;
  write_text_model(out, full_model());
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

}  // namespace
}  // namespace kvern::text
