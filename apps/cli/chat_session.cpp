#include "apps/cli/chat_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "kvern-chat-1";
constexpr uintmax_t kMaxFileBytes = uintmax_t{64} << 20;

std::string context_path(const std::string& path) {
  return path + ".kv";
}

// A model may stop within a character. What the next question is built on must be what a file can
// hold, or a loaded talk would go on otherwise than one that never stopped.
std::string valid_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

std::vector<ChatMessage> parse_messages(const Json& json) {
  std::vector<ChatMessage> messages;
  for (const Json& message : json.at("messages")) {
    messages.push_back(
        {message.at("role").get<std::string>(), message.at("content").get<std::string>()});
  }
  return messages;
}

std::vector<ChatMessage> read_conversation(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) {
    throw Error(Code::kNotFound, fmt::format("cannot read the conversation '{}': {}", path,
                                             error ? error.message() : std::strerror(errno)));
  }
  try {
    if (bytes > kMaxFileBytes) throw Error(Code::kInvalidArgument, "too long");
    const Json json = Json::parse(in);
    if (json.at("format") != kFormat) throw Error(Code::kInvalidArgument, "of another format");
    return parse_messages(json);
  } catch (const std::exception&) {
    throw Error(Code::kInvalidArgument,
                fmt::format("'{}' is no conversation that /save wrote", path));
  }
}

// /save replaces what /save wrote, and nothing else.
void check_may_replace(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::kInvalidArgument,
                fmt::format("'{}' is {}: nothing is saved; choose another name", path, what));
  };
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) refuse("no regular file");
  if (fs::exists(status)) {
    try {
      read_conversation(path);
    } catch (const Error&) {
      refuse("a file that /save did not write");
    }
  } else if (fs::exists(context_path(path), ignored)) {
    throw Error(Code::kInvalidArgument,
                fmt::format("'{}' is there already: nothing is saved; choose another name",
                            context_path(path)));
  }
}

// Through a temporary file: a full disk leaves an older conversation as it was.
void write_conversation(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".part";
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, path, error);
  if (out && !error) return;
  const std::string why = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(temporary, error);
  throw Error(Code::kIo, fmt::format("cannot write the conversation '{}': {}", path, why));
}

}  // namespace

ChatSession::ChatSession(Engine& engine, Request defaults)
    : engine_(engine), defaults_(std::move(defaults)) {
  defaults_.keep_context = true;
  if (!engine.text().has_tokenizer() || !engine.text().has_chat_template()) {
    // Says which of the two, and why a template was refused.
    engine.text().apply_chat_template({{"user", "hello"}}, true);
    engine.text().encode("hello", false, false);
  }
}

void ChatSession::set_system(const std::string& text) {
  system_ = text;
  reset();
}

void ChatSession::reset() {
  messages_.clear();
  context_.reset();
  context_tokens_ = 0;
  if (!system_.empty()) messages_.push_back({"system", system_});
}

Answer ChatSession::retry(const std::function<void(const Event&)>& on_event) {
  const std::vector<ChatMessage> before = messages_;
  while (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
  if (messages_.empty() || messages_.back().role != "user") {
    messages_ = before;
    throw Error(Code::kInvalidRequest, "nothing was asked yet");
  }
  const std::string question = std::move(messages_.back().content);
  messages_.pop_back();
  try {
    Answer answer = ask(question, on_event);
    if (!answer.message.empty()) messages_ = before;
    return answer;
  } catch (const Error&) {
    messages_ = before;
    throw;
  }
}

// The context goes on where it agrees with the conversation: what it holds is not computed again,
// also when it came from a file, whose pages serve nobody else.
bool ChatSession::go_on(const Request& request) {
  if (!context_) return false;
  const std::vector<int32_t> held = context_->context_ids();
  const std::vector<int32_t>& wanted = request.prompt_ids;
  const auto differ = std::mismatch(held.begin(), held.end(), wanted.begin(), wanted.end()).first;
  const auto common =
      std::min<ptrdiff_t>(differ - held.begin(), static_cast<ptrdiff_t>(wanted.size()) - 1);
  if (common <= 0) return false;
  Request rest = request;
  rest.prompt_ids.erase(rest.prompt_ids.begin(), rest.prompt_ids.begin() + common);
  try {
    if (common < static_cast<ptrdiff_t>(held.size())) context_->rewind(common);
    context_->extend(rest);
    return true;
  } catch (const Error&) {
    return false;  // an answer that failed keeps nothing; a bad request fails again, by itself
  }
}

void ChatSession::begin(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (!go_on(request)) {
    context_.reset();
    context_.emplace(engine_.submit(request));
  }
  if (cancelled_) context_->cancel();
}

Answer ChatSession::ask(const std::string& question,
                        const std::function<void(const Event&)>& on_event) {
  messages_.push_back({"user", question});
  try {
    Request request = defaults_;
    request.prompt_ids = engine_.text().encode(engine_.text().apply_chat_template(messages_, true),
                                               false, /*parse_special=*/true);
    context_tokens_ = static_cast<int64_t>(request.prompt_ids.size());
    begin(request);
    Answer answer = collect(*context_, on_event);
    if (answer.reason == FinishReason::kFailed || answer.reason == FinishReason::kKvExhausted) {
      messages_.pop_back();
      return answer;
    }
    context_tokens_ += static_cast<int64_t>(answer.ids.size());
    messages_.push_back({"assistant", valid_utf8(answer.text)});
    return answer;
  } catch (const Error&) {
    messages_.pop_back();
    throw;
  }
}

void ChatSession::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (context_) context_->cancel();
}

void ChatSession::forget_cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = false;
}

void ChatSession::save(const std::string& path) const {
  check_may_replace(path);
  Json json = {{"format", kFormat}, {"messages", Json::array()}};
  for (const ChatMessage& message : messages_) {
    json["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  if (context_) {
    context_->save(context_path(path));
  } else {
    std::error_code ignored;
    std::filesystem::remove(context_path(path), ignored);
  }
  write_conversation(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string ChatSession::load(const std::string& path) {
  std::vector<ChatMessage> messages = read_conversation(path);
  std::string remark;
  std::optional<ExecutionContext> context;
  try {
    if (std::filesystem::exists(context_path(path))) {
      context.emplace(engine_.restore(context_path(path)));
    }
  } catch (const Error& error) {
    remark = fmt::format("the saved context is not used: {}", error.what());
  }
  system_ = !messages.empty() && messages[0].role == "system" ? messages[0].content : "";
  messages_ = std::move(messages);
  context_tokens_ = context ? static_cast<int64_t>(context->context_ids().size()) : 0;
  context_ = std::move(context);
  return remark;
}

}  // namespace kvern::cli
