// Text in, text out: a loaded model's tokenizer and chat template, and the call that does it all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/engine.h"

namespace kvern {

struct ChatMessage {
  std::string role;     // "system", "user", "assistant"
  std::string content;  // UTF-8
};

// A conversation with everything that templates know, as JSON texts; key order is kept.
struct ChatInput {
  std::string messages_json;   // an array of objects: role, content (text, null or parts),
                               // tool_calls, …
  std::string tools_json;      // an array of tool descriptions; empty: none
  std::string variables_json;  // an object: what else the template asks for ("enable_thinking")
  std::string template_name;   // of a model with several; empty: its default
  bool add_generation_prompt = true;
};

// Immutable; thread-safe. Methods throw Error(kUnsupported) when the plan has no tokenizer.
class Engine::TextTools {
 public:
  TextTools(const TextTools&) = delete;
  ~TextTools();

  bool has_tokenizer() const;
  bool has_chat_template() const;
  // Ids of a UTF-8 text; invalid bytes are taken as they are. add_special: begin and end tokens
  // where the model wants them. parse_special: "<|im_end|>" in the text is that token, not its
  // characters.
  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const;
  // Both throw Error(kInvalidRequest) for an id outside the vocabulary. piece: the bytes that one
  // token stands for, special ones included.
  std::string decode(std::span<const int32_t> ids) const;
  std::string piece(int32_t id) const;
  // The model's own rendering of a conversation, ready for encode(…, false, true). Throws
  // Error(kInvalidRequest) with the template's words when it objects.
  std::string apply_chat_template(const std::vector<ChatMessage>& messages,
                                  bool add_generation_prompt) const;
  // Throws Error(kInvalidRequest) for JSON that is none, as well.
  std::string apply_chat_template(const ChatInput& input) const;

  struct State;  // Kvern's own: an Engine makes its TextTools
  explicit TextTools(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

// The tokenizer and templates of a plan alone, without its weights. Throws as Plan::open.
std::unique_ptr<Engine::TextTools> open_text_tools(const std::string& plan_path);

struct Answer {
  std::string text;
  std::vector<int32_t> ids;
  FinishReason reason = FinishReason::kNone;
  std::string message;
  Timings timings;
};

// Takes every event until the answer ended. on_event sees each first and may be empty; what it
// throws ends the wait, and the context's end then cancels the request.
Answer collect(ExecutionContext& context,
               const std::function<void(const Event& event)>& on_event = {});

// Submits and waits. on_text gets each piece as it comes and may be empty; returning false cancels.
Answer generate(Engine& engine, const Request& request,
                const std::function<bool(std::string_view piece)>& on_text = {});

}  // namespace kvern
