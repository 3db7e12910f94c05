// A conversation with a model: what was said, and the context that holds it.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/generate.h"

namespace kvern::cli {

class ChatSession {
 public:
  // `defaults` says how answers are chosen; its prompt is set by the session. Throws
  // Error(kUnsupported) for a model without tokenizer or chat template.
  ChatSession(Engine& engine, Request defaults);

  void set_system(const std::string& text);  // empty: none. Begins anew.
  void reset();                              // forgets all but the system message
  // Answers the last question again; an answer that fails leaves the one before. Throws
  // Error(kInvalidRequest) when nothing was asked.
  Answer retry(const std::function<void(const Event&)>& on_event);

  // One question and its answer, piece by piece. An answer that was cut short stays, as far as it
  // came; one that failed takes its question with it.
  Answer ask(const std::string& question, const std::function<void(const Event&)>& on_event);
  // From any thread: ends the answer that runs, or that begins next.
  void cancel();
  // Forgets a cancel that came when its answer had ended.
  void forget_cancel();

  // The conversation as JSON, and beside it PATH.kv: its context, so that the next question need
  // not compute it again. load() takes a conversation without that file, too.
  void save(const std::string& path) const;
  // Throws Error(kNotFound | kInvalidArgument | …); the conversation then stays as it was. Returns
  // a remark when the context could not be used.
  std::string load(const std::string& path);

  const std::vector<ChatMessage>& messages() const { return messages_; }
  int64_t context_tokens() const { return context_tokens_; }

 private:
  void begin(const Request& request);
  bool go_on(const Request& request);

  Engine& engine_;
  Request defaults_;
  std::string system_;
  std::vector<ChatMessage> messages_;  // the system message included
  std::mutex mutex_;                   // of what cancel() touches
  bool cancelled_ = false;
  std::optional<ExecutionContext> context_;
  int64_t context_tokens_ = 0;
};

}  // namespace kvern::cli
