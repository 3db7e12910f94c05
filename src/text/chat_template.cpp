#include "text/chat_template.h"

#include <ctime>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace kvern::text {

ChatTemplate::ChatTemplate(std::string source, TemplateLimits limits)
    : template_(std::make_unique<const jinja::Template>(jinja::parse(source, limits.max_depth))),
      limits_(limits) {}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const TemplateInput& input) const {
  using jinja::Value;
  const int64_t now = input.unix_time_s.value_or(static_cast<int64_t>(std::time(nullptr)));
  jinja::Context context(limits_, now);
  std::vector<Value> messages;
  for (const ChatMessage& message : input.messages) {
    context.charge(message.role.size() + message.content.size());
    messages.push_back(
        Value::dict(context, {{"role", Value(message.role)}, {"content", Value(message.content)}}));
  }
  std::vector<std::pair<std::string, Value>> globals;
  globals.emplace_back("messages", Value::list(context, std::move(messages)));
  globals.emplace_back("add_generation_prompt", Value(input.add_generation_prompt));
  globals.emplace_back("bos_token", Value(input.bos_token));
  globals.emplace_back("eos_token", Value(input.eos_token));
  for (const auto& [name, value] : input.variables) globals.emplace_back(name, Value(value));
  return jinja::Interpreter(context, std::move(globals)).render(*template_);
}

}  // namespace kvern::text
