// Templates rendered by transformers' own code: scripts/golden/jinja_cases.py.
#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "kvern/error.h"
#include "text/chat_template.h"

namespace kvern::text {
namespace {

struct Golden {
  Json json;
  std::map<std::string, TemplateInput> inputs;
};

TemplateInput input_from(const Json& given, int64_t unix_time_s) {
  TemplateInput input;
  input.messages_json = given.at("messages").dump();
  if (given.contains("tools")) input.tools_json = given.at("tools").dump();
  if (given.contains("documents")) input.documents_json = given.at("documents").dump();
  input.add_generation_prompt = given.value("add_generation_prompt", false);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  if (given.contains("variables")) {
    for (const auto& [name, value] : given.at("variables").items()) {
      input.variables_json.emplace_back(name, value.dump());
    }
  }
  input.unix_time_s = unix_time_s;
  return input;
}

const Golden& golden() {
  static const Golden kGolden = [] {
    setenv("TZ", "UTC0", 1);
    tzset();
    Golden golden;
    golden.json = parse_json(read_text_file(KVERN_TEST_DATA "/golden/jinja_cases.json", 1 << 20),
                             "jinja_cases.json", Code::kInvalidModel);
    for (const auto& [name, given] : golden.json.at("conversations").items()) {
      golden.inputs[name] = input_from(given, golden.json.at("unix_time_s").get<int64_t>());
    }
    return golden;
  }();
  return kGolden;
}

// The text, or nothing and the reason.
std::optional<std::string> rendered(const std::string& source, const TemplateInput& input,
                                    std::string& reason) {
  try {
    return ChatTemplate(source).render(input);
  } catch (const Error& error) {
    EXPECT_NE(error.code(), Code::kInternal) << error.what();
    reason = error.what();
    return std::nullopt;
  }
}

// Counts what it compared, so that an empty file is no success.
int compare(const char* kind) {
  int count = 0;
  for (const Json& one : golden().json.at("cases")) {
    if (!one.contains(kind)) continue;
    ++count;
    const std::string name = one.at(kind).get<std::string>();
    const std::string source = std::string(kind) == "family"
                                   ? golden().json.at("families").at(name).get<std::string>()
                                   : name;
    SCOPED_TRACE(name + " on " + one.at("input").get<std::string>());
    std::string reason;
    const auto text =
        rendered(source, golden().inputs.at(one.at("input").get<std::string>()), reason);
    if (one.contains("error")) {
      EXPECT_EQ(text, std::nullopt) << "jinja2 fails with " << one.at("error");
    } else {
      EXPECT_EQ(text.value_or("failed: " + reason), one.at("text").get<std::string>());
    }
  }
  return count;
}

TEST(ChatTemplateGolden, ConstructsRenderAsInJinja) {
  EXPECT_GE(compare("template"), 200);
}

TEST(ChatTemplateGolden, FamiliesRenderAsInTransformers) {
  EXPECT_GE(golden().json.at("families").size(), 12U);
  EXPECT_GE(compare("family"), 180);
}

}  // namespace
}  // namespace kvern::text
