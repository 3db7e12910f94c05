// Chat templates: a sandboxed subset of Jinja that renders as transformers does (trim_blocks and
// lstrip_blocks on). Templates come with model files and are hostile: they can call nothing
// outside, and steps, depth and output are capped.
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

struct TemplateInput {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  std::vector<std::pair<std::string, std::string>> variables;  // further names, as strings
  std::optional<int64_t> unix_time_s;                          // for strftime_now(); absent: now
};

struct TemplateLimits {
  int64_t max_steps = 10'000'000;
  int64_t max_output_bytes = 64 << 20;  // also bounds every string made on the way
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

  // Throws Error(kInvalidRequest) with the template's own words when it calls raise_exception, and
  // for a fault met while rendering. Thread-safe.
  std::string render(const TemplateInput& input) const;

 private:
  std::unique_ptr<const jinja::Template> template_;
  TemplateLimits limits_;
};

}  // namespace kvern::text
