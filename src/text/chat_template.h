// Chat templates: a sandboxed subset of Jinja that renders as transformers does (trim_blocks and
// lstrip_blocks on). Templates come with model files and are hostile: they can call nothing
// outside, and steps, depth, output and memory are capped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvern::text {

struct ChatMessage {
  std::string role;
  std::string content;
};

// What a template sees. The texts of JSON keep the order of their keys.
struct TemplateInput {
  std::vector<ChatMessage> messages;
  // Not empty: a JSON array of objects, instead of `messages`; any fields, such as "tool_calls", or
  // "content" as a list of parts. As in transformers, a field that is null counts as absent, and
  // reasoning is found under "reasoning_content" and "thinking" alike.
  std::string messages_json;
  std::string tools_json;      // a JSON array; empty: `tools` is none
  std::string documents_json;  // a JSON array; empty: `documents` is none
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  std::vector<std::pair<std::string, std::string>> variables;       // further names, as strings
  std::vector<std::pair<std::string, std::string>> variables_json;  // … and as any JSON: "false"
  std::optional<int64_t> unix_time_s;  // for strftime_now(); absent: now
};

struct TemplateLimits {
  int64_t max_steps = 10'000'000;
  int64_t max_output_bytes = 64 << 20;  // also of every string made on the way; four times as much
                                        // may be held at any time
  int max_depth = 200;                  // of expressions and blocks
};

namespace jinja {
struct Template;
}

class ChatTemplate {
 public:
  // Throws Error(kInvalidModel) for a syntax error and Error(kUnsupported) for a construct that is
  // Jinja but not ours; both name the line.
  explicit ChatTemplate(std::string source, TemplateLimits limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Throws Error(kInvalidRequest) with the template's own words when it calls raise_exception, for
  // JSON that is not as TemplateInput says, and for a fault met while rendering. Thread-safe.
  std::string render(const TemplateInput& input) const;

 private:
  std::unique_ptr<const jinja::Template> template_;
  TemplateLimits limits_;
};

}  // namespace kvern::text
