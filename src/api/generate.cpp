#include "kvern/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/text_tools.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace kvern {

namespace {

// A template that Kvern cannot run must not keep the model from serving plain text: the refusal is
// kept and told to whoever asks for the template.
struct NamedChatTemplate {
  NamedChatTemplate(std::string its_name, const std::string& source) : name(std::move(its_name)) {
    try {
      made = std::make_unique<text::ChatTemplate>(source);
    } catch (const Error& error) {
      refusal = fmt::format("the model's chat template cannot be used: {}", error.what());
    }
  }

  std::string name;                          // "default", "tool_use"
  std::unique_ptr<text::ChatTemplate> made;  // null: refused
  std::string refusal;
};

}  // namespace

struct Engine::TextTools::State {
  std::shared_ptr<const plan::PlanFile> file;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::vector<NamedChatTemplate> templates;  // the default first

  const text::Tokenizer& need_tokenizer() const {
    if (tokenizer != nullptr) return *tokenizer;
    throw Error(Code::kUnsupported,
                "the plan holds no tokenizer: give and take token ids (--prompt-ids, --ids)");
  }
  const text::ChatTemplate& need_template(const std::string& name) const;
  bool has_template(std::string_view name) const {
    return std::any_of(templates.begin(), templates.end(),
                       [&](const NamedChatTemplate& each) { return each.name == name; });
  }
  std::string render(const std::string& template_name, text::TemplateInput input) const;
};

// "": the default, which for a model with tools is asked for by name.
const text::ChatTemplate& Engine::TextTools::State::need_template(const std::string& name) const {
  if (templates.empty()) {
    throw Error(Code::kUnsupported, "the model has no chat template; send plain text instead");
  }
  std::string names;
  for (const NamedChatTemplate& each : templates) {
    names += (names.empty() ? "" : ", ") + each.name;
    if (!name.empty() && each.name != name) continue;
    if (each.made != nullptr) return *each.made;
    throw Error(Code::kUnsupported, each.refusal);
  }
  throw Error(Code::kInvalidRequest,
              fmt::format("the model has no chat template '{}'; there is {}", name, names));
}

std::string Engine::TextTools::State::render(const std::string& template_name,
                                             text::TemplateInput input) const {
  const text::TextModel& model = file->plan().text;
  const auto token_text = [&](const std::optional<int32_t>& id) {
    return id ? model.tokens.at(static_cast<size_t>(*id)) : std::string();
  };
  input.bos_token = token_text(model.bos_id);
  input.eos_token = token_text(model.eos_id);
  return need_template(template_name).render(input);
}

namespace {

void check_id(const text::Tokenizer& tokenizer, int32_t id) {
  if (id >= 0 && id < tokenizer.vocabulary_size()) return;
  throw Error(Code::kInvalidRequest, fmt::format("id {} is outside the vocabulary [0, {})", id,
                                                 tokenizer.vocabulary_size()));
}

}  // namespace

std::unique_ptr<Engine::TextTools> make_text_tools(
    std::shared_ptr<const plan::PlanFile> file, std::shared_ptr<const text::Tokenizer> tokenizer) {
  auto state = std::make_unique<Engine::TextTools::State>();
  const text::TextModel& model = file->plan().text;
  for (const text::NamedTemplate& each : model.chat_templates) {
    state->templates.emplace_back(each.name, each.source);
  }
  if (state->templates.empty() && !model.chat_template.empty()) {
    state->templates.emplace_back("default", model.chat_template);
  }
  state->file = std::move(file);
  state->tokenizer = std::move(tokenizer);
  return std::make_unique<Engine::TextTools>(std::move(state));
}

std::unique_ptr<Engine::TextTools> open_text_tools(const std::string& plan_path) {
  auto file = std::make_shared<const plan::PlanFile>(plan_path);
  const text::TextModel& model = file->plan().text;
  auto tokenizer = model.empty() ? nullptr : std::make_shared<const text::Tokenizer>(model);
  return make_text_tools(std::move(file), std::move(tokenizer));
}

Engine::TextTools::TextTools(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::TextTools::~TextTools() = default;

bool Engine::TextTools::has_tokenizer() const {
  return state_->tokenizer != nullptr;
}

bool Engine::TextTools::has_chat_template() const {
  return !state_->templates.empty() && state_->templates.front().made != nullptr;
}

std::vector<int32_t> Engine::TextTools::encode(std::string_view text, bool add_special,
                                               bool parse_special) const {
  text::EncodeOptions options;
  options.add_special = add_special;
  options.parse_special = parse_special;
  return state_->need_tokenizer().encode(text, options);
}

std::string Engine::TextTools::decode(std::span<const int32_t> ids) const {
  const text::Tokenizer& tokenizer = state_->need_tokenizer();
  for (const int32_t id : ids) check_id(tokenizer, id);
  return tokenizer.decode(ids, /*skip_special=*/true);
}

std::string Engine::TextTools::piece(int32_t id) const {
  const text::Tokenizer& tokenizer = state_->need_tokenizer();
  check_id(tokenizer, id);
  return std::string(tokenizer.token_bytes(id));
}

std::string Engine::TextTools::apply_chat_template(const std::vector<ChatMessage>& messages,
                                                   bool add_generation_prompt) const {
  text::TemplateInput input;
  for (const ChatMessage& message : messages) {
    input.messages.push_back({message.role, message.content});
  }
  input.add_generation_prompt = add_generation_prompt;
  return state_->render("", std::move(input));
}

std::string Engine::TextTools::apply_chat_template(const ChatInput& input) const {
  text::TemplateInput out;
  out.messages_json = input.messages_json.empty() ? "[]" : input.messages_json;
  out.tools_json = input.tools_json;
  out.add_generation_prompt = input.add_generation_prompt;
  if (!input.variables_json.empty()) {
    const Json variables =
        parse_json(input.variables_json, "chat template variables", Code::kInvalidRequest);
    if (!variables.is_object()) {
      throw Error(Code::kInvalidRequest, "chat template variables: a JSON object is wanted");
    }
    for (const auto& [name, value] : variables.items()) {
      out.variables_json.emplace_back(name, dump_json(value, -1));
    }
  }
  std::string name = input.template_name;
  // As transformers does: a model with a template of its own for tools uses it for them.
  if (name.empty() && !out.tools_json.empty() && state_->has_template("tool_use")) {
    name = "tool_use";
  }
  return state_->render(name, std::move(out));
}

Answer collect(ExecutionContext& context, const std::function<void(const Event& event)>& on_event) {
  Answer answer;
  Event event;
  while (context.next(event)) {
    if (on_event) on_event(event);
    answer.text += event.text;
    if (event.kind != Event::Kind::kFinished) continue;
    answer.reason = event.reason;
    answer.message = event.message;
  }
  answer.ids = context.ids();
  answer.timings = context.timings();
  return answer;
}

Answer generate(Engine& engine, const Request& request,
                const std::function<bool(std::string_view piece)>& on_text) {
  ExecutionContext context = engine.submit(request);
  return collect(context, [&](const Event& event) {
    if (!event.text.empty() && on_text && !on_text(event.text)) context.cancel();
  });
}

}  // namespace kvern
