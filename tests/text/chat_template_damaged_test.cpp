// Damaged templates and conversations: each ends in a text or an Error, soon.
#include <gtest/gtest.h>

#include <random>

#include "base/file.h"
#include "base/json.h"
#include "kvern/error.h"
#include "text/chat_template.h"

namespace kvern::text {
namespace {

constexpr TemplateLimits kSmall{.max_steps = 200'000, .max_output_bytes = 1 << 20};

enum class End { kText, kError };

End end_of(const std::string& source, const TemplateInput& input) {
  try {
    ChatTemplate(source, kSmall).render(input);
    return End::kText;
  } catch (const Error& error) {
    EXPECT_NE(error.code(), Code::kInternal) << error.what();
    EXPECT_NE(std::string(error.what()), "");
    return End::kError;
  }
}

const Json& golden() {
  static const Json kGolden =
      parse_json(read_text_file(KVERN_TEST_DATA "/golden/jinja_cases.json", 1 << 20),
                 "jinja_cases.json", Code::kInvalidModel);
  return kGolden;
}

TemplateInput with_tools() {
  const Json& given = golden().at("conversations").at("tool_response");
  TemplateInput input;
  input.messages_json = given.at("messages").dump();
  input.tools_json = given.at("tools").dump();
  return input;
}

std::string damaged(std::string text, std::mt19937& random) {
  const auto place = [&] { return random() % (text.size() + 1); };
  constexpr const char* kPieces[] = {"{%",  "%}", "{{",   "}}", "{#",    "'",   "(",    "[",
                                     "|",   "is", "-%}",  ".",  "endif", "\\",  "\xff", "%",
                                     "not", "if", "else", "~",  "{",     "\0x", ":",    "**"};
  const size_t count = 1 + random() % 4;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = place();
    switch (random() % 4) {
      case 0:
        text.erase(at, random() % 12);
        break;
      case 1:
        text.insert(at, kPieces[random() % std::size(kPieces)]);
        break;
      case 2:
        text.resize(at);
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(random());
    }
  }
  return text;
}

// 13 families, 40 times damaged each.
TEST(ChatTemplateDamaged, FamiliesEndInATextOrAnError) {
  std::mt19937 random(4);
  const TemplateInput input = with_tools();
  int num_errors = 0;
  for (const auto& [name, source] : golden().at("families").items()) {
    for (int i = 0; i < 40; ++i) {
      const std::string broken = damaged(source.get<std::string>(), random);
      SCOPED_TRACE(name + ":\n" + broken);
      if (end_of(broken, input) == End::kError) ++num_errors;
    }
  }
  EXPECT_GT(num_errors, 100);  // or nothing was damaged
}

TEST(ChatTemplateDamaged, ConversationsEndInATextOrAnError) {
  std::mt19937 random(5);
  const std::string source = golden().at("families").at("thinking").get<std::string>();
  const TemplateInput whole = with_tools();
  EXPECT_EQ(end_of(source, whole), End::kText);
  int num_errors = 0;
  for (int i = 0; i < 200; ++i) {
    TemplateInput input = whole;
    std::string& part = i % 2 == 0 ? input.messages_json : input.tools_json;
    part = damaged(part, random);
    SCOPED_TRACE(part);
    if (end_of(source, input) == End::kError) ++num_errors;
  }
  EXPECT_GT(num_errors, 50);
}

TEST(ChatTemplateDamaged, JsonOfTheWrongKindIsRefusedByName) {
  const auto reason = [](TemplateInput input) -> std::string {
    try {
      return ChatTemplate("{{ messages }}{{ v }}").render(input);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidRequest);
      return error.what();
    }
  };
  const auto messages = [](std::string json) {
    TemplateInput input;
    input.messages_json = std::move(json);
    return input;
  };
  EXPECT_EQ(reason(messages("{}")), "messages must be a JSON array, not dict");
  EXPECT_EQ(reason(messages("[{}, 1]")), "messages must be JSON objects; number 2 is int");
  EXPECT_EQ(reason(messages("[{\"a\": }]")), "messages: not valid JSON at byte 8");
  EXPECT_EQ(reason(messages("[{\"a\": 1}] x")), "messages: not valid JSON at byte 12");
  EXPECT_EQ(reason(messages(std::string(100'000, '['))), "messages: JSON nested deeper than 100");
  EXPECT_EQ(reason(messages("[{\"a\": 18446744073709551615}]")),
            "messages: the number 18446744073709551615 is larger than templates can hold; send it "
            "as a string");
  TemplateInput tools = messages("[]");
  tools.tools_json = "\"hammer\"";
  EXPECT_EQ(reason(tools), "tools must be a JSON array, not string");
  TemplateInput variable = messages("[]");
  variable.variables_json = {{"v", "{"}};
  EXPECT_EQ(reason(variable), "v: not valid JSON at byte 2");
}

// A key given many times, and many keys: no search grows with their square.
TEST(ChatTemplateDamaged, WideObjectsAreReadInTime) {
  std::string json = "[{\"role\": \"user\", \"content\": {";
  for (int i = 0; i < 50'000; ++i) json += "\"key" + std::to_string(i % 40'000) + "\": 1,";
  json += "\"last\": 2}}]";
  TemplateInput input;
  input.messages_json = json;
  const ChatTemplate chat("{{ messages[0].content | length }} {{ messages[0].content.last }}");
  EXPECT_EQ(chat.render(input), "40001 2");
}

}  // namespace
}  // namespace kvern::text
