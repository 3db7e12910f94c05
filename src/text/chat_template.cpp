#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "kvern/error.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"

namespace kvern::text {
namespace {

using jinja::Context;
using jinja::Value;

Value plain_messages(Context& context, const std::vector<ChatMessage>& messages) {
  std::vector<Value> out;
  for (const ChatMessage& message : messages) {
    out.push_back(Value::dict(
        context, {{Value::constant("role"), Value::text(context, message.role)},
                  {Value::constant("content"), Value::text(context, message.content)}}));
  }
  return Value::list(context, std::move(out));
}

// A message without its null fields; its reasoning, whichever of three names it came under, under
// the two that templates read.
Value normalized_message(Context& context, const Value& message) {
  jinja::Entries entries;
  for (const auto& entry : message.dict()->entries) {
    if (!entry.second.none()) entries.push_back(entry);
  }
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return *entry.first.string() == name;
    });
    if (found == entries.end()) continue;
    const Value reasoning = found->second;
    const Value* thinking = message.dict()->find(context, "thinking");
    if (thinking == nullptr || thinking->none()) {
      entries.insert(entries.begin(), {Value::constant("thinking"), reasoning});
    }
    jinja::put(context, entries, Value::constant("reasoning_content"), reasoning);
    break;
  }
  return Value::dict(context, std::move(entries));
}

Value json_array(Context& context, const std::string& text, const char* what) {
  Value value = jinja::value_from_json(context, text, what);
  if (value.list()) return value;
  throw Error(Code::kInvalidRequest,
              fmt::format("{} must be a JSON array, not {}", what, value.type_name()));
}

Value json_messages(Context& context, const std::string& text) {
  const Value messages = json_array(context, text, "messages");
  std::vector<Value> out;
  for (const Value& message : messages.list()->items) {
    if (!message.mapping()) {
      throw Error(Code::kInvalidRequest,
                  fmt::format("messages must be JSON objects; number {} is {}", out.size() + 1,
                              message.type_name()));
    }
    out.push_back(normalized_message(context, message));
  }
  return Value::list(context, std::move(out));
}

Value array_or_none(Context& context, const std::string& text, const char* what) {
  return text.empty() ? Value(jinja::None{}) : json_array(context, text, what);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, TemplateLimits limits)
    : template_(std::make_unique<const jinja::Template>(jinja::parse(source, limits.max_depth))),
      limits_(limits) {}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const TemplateInput& input) const {
  const int64_t now = input.unix_time_s.value_or(static_cast<int64_t>(std::time(nullptr)));
  Context context(limits_, now);
  jinja::Interpreter::Globals globals;
  globals.emplace_back("messages", input.messages_json.empty()
                                       ? plain_messages(context, input.messages)
                                       : json_messages(context, input.messages_json));
  globals.emplace_back("tools", array_or_none(context, input.tools_json, "tools"));
  globals.emplace_back("documents", array_or_none(context, input.documents_json, "documents"));
  globals.emplace_back("add_generation_prompt", Value(input.add_generation_prompt));
  globals.emplace_back("bos_token", Value::text(context, input.bos_token));
  globals.emplace_back("eos_token", Value::text(context, input.eos_token));
  for (const auto& [name, value] : input.variables) {
    globals.emplace_back(name, Value::text(context, value));
  }
  for (const auto& [name, text] : input.variables_json) {
    globals.emplace_back(name, jinja::value_from_json(context, text, name));
  }
  return jinja::Interpreter(context, globals).render(*template_);
}

}  // namespace kvern::text
