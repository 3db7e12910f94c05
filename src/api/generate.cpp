#include "kvern/generate.h"

#include <fmt/format.h>

#include "api/text_tools.h"
#include "text/chat_template.h"

namespace kvern {

struct Engine::TextTools::State {
  std::shared_ptr<const plan::PlanFile> file;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;  // null: none, or one that was refused
  std::string refusal;                                // why it was refused

  const text::Tokenizer& need_tokenizer() const {
    if (tokenizer != nullptr) return *tokenizer;
    throw Error(Code::kUnsupported,
                "the plan holds no tokenizer: give and take token ids (--prompt-ids, --ids)");
  }
};

// A template that Kvern cannot run must not keep the model from serving plain text: the refusal is
// kept and told to whoever asks for the template.
std::unique_ptr<Engine::TextTools> make_text_tools(
    std::shared_ptr<const plan::PlanFile> file, std::shared_ptr<const text::Tokenizer> tokenizer) {
  auto state = std::make_unique<Engine::TextTools::State>();
  const std::string& source = file->plan().text.chat_template;
  try {
    if (!source.empty()) state->chat_template = std::make_unique<text::ChatTemplate>(source);
  } catch (const Error& error) {
    state->refusal = fmt::format("the model's chat template cannot be used: {}", error.what());
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
  return state_->chat_template != nullptr;
}

std::vector<int32_t> Engine::TextTools::encode(std::string_view text, bool add_special,
                                               bool parse_special) const {
  text::EncodeOptions options;
  options.add_special = add_special;
  options.parse_special = parse_special;
  return state_->need_tokenizer().encode(text, options);
}

std::string Engine::TextTools::decode(std::span<const int32_t> ids) const {
  return state_->need_tokenizer().decode(ids, /*skip_special=*/true);
}

std::string Engine::TextTools::apply_chat_template(const ChatInput&) const {
  throw Error(Code::kUnsupported, "conversations as JSON are not supported yet");
}

std::string Engine::TextTools::apply_chat_template(const std::vector<ChatMessage>& messages,
                                                   bool add_generation_prompt) const {
  if (state_->chat_template == nullptr) {
    throw Error(Code::kUnsupported,
                state_->refusal.empty()
                    ? std::string("the model has no chat template; send plain text instead")
                    : state_->refusal);
  }
  const text::TextModel& model = state_->file->plan().text;
  const auto token_text = [&](const std::optional<int32_t>& id) {
    return id ? model.tokens.at(static_cast<size_t>(*id)) : std::string();
  };
  text::TemplateInput input;
  for (const ChatMessage& message : messages) {
    input.messages.push_back({message.role, message.content});
  }
  input.add_generation_prompt = add_generation_prompt;
  input.bos_token = token_text(model.bos_id);
  input.eos_token = token_text(model.eos_id);
  return state_->chat_template->render(input);
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
