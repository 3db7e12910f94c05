#include "run/engine/text_thread.h"

#include <exception>
#include <new>
#include <utility>

namespace kvern::engine {

TextThread::TextThread(std::shared_ptr<const text::Tokenizer> tokenizer,
                       std::shared_ptr<Inbox> inbox)
    : tokenizer_(std::move(tokenizer)), inbox_(std::move(inbox)), thread_([this] { loop(); }) {}

TextThread::~TextThread() {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void TextThread::add(std::shared_ptr<GenerationState> generation) {
  post(Message{std::move(generation), {}, {}});
}

void TextThread::post(std::vector<sched::Event> events, Clock::time_point at) {
  if (!events.empty()) post(Message{nullptr, std::move(events), at});
}

void TextThread::post(Message message) {
  {
    const std::scoped_lock lock(mutex_);
    messages_.push_back(std::move(message));
  }
  posted_.notify_one();
}

void TextThread::wait_drained() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return messages_.empty() && !working_; });
}

void TextThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    working_ = false;
    if (messages_.empty()) drained_.notify_all();
    posted_.wait(lock, [&] { return !messages_.empty() || closed_; });
    if (messages_.empty()) return;
    std::vector<Message> messages = std::exchange(messages_, {});
    working_ = true;
    lock.unlock();
    for (Message& message : messages) {
      try {
        handle(message);
      } catch (const std::exception& error) {
        break_down(message, error.what());
      } catch (...) {
        break_down(message, "the text thread: unknown exception");
      }
    }
    messages.clear();
    lock.lock();
  }
}

void TextThread::break_down(const Message& message, const char* what) noexcept {
  if (message.generation != nullptr) message.generation->fail(Code::kInternal, what);
  for (const auto& [seq, answer] : answers_) answer.generation->fail(Code::kInternal, what);
  answers_.clear();
  try {
    inbox_->report_fault(what);
  } catch (const std::bad_alloc&) {  // those that run have failed; later ones may go well
  }
}

void TextThread::handle(Message& message) {
  if (message.generation != nullptr) {
    Answer answer{message.generation, std::nullopt,
                  StopStrings(message.generation->stop_strings())};
    // An answer goes on where its prompt ended: "mill" + " wheel", also where SentencePiece would
    // drop the space of a first word.
    if (tokenizer_ != nullptr) {
      answer.detokenizer.emplace(text::StreamDetokenizer::continuing(*tokenizer_));
    }
    answers_.emplace(message.generation->seq(), std::move(answer));
  }
  for (sched::Event& event : message.events) handle(event, message.at);
}

void TextThread::handle(sched::Event& event, Clock::time_point at) {
  const auto it = answers_.find(event.seq);
  if (it == answers_.end()) return;  // a stop string ended it before the engine knew
  Answer& answer = it->second;
  switch (event.kind) {
    case sched::EventKind::kStarted:
      return;  // noted by the engine thread, which knows when the step began
    case sched::EventKind::kToken:
      on_token(answer, event, at);
      if (answer.stops.hit()) answers_.erase(it);
      return;
    case sched::EventKind::kLogits: {
      Event out;
      out.kind = EventKind::kLogits;
      out.first_row = event.first_row;
      out.logits = std::move(event.logits);
      return answer.generation->push(std::move(out));
    }
    case sched::EventKind::kPromptLogprobs: {
      Event out;
      out.kind = EventKind::kPromptLogprobs;
      out.first_position = event.first_row;
      out.logprobs = std::move(event.logprobs);
      return answer.generation->push(std::move(out));
    }
    case sched::EventKind::kFinished:
      on_finished(answer, event);
      answers_.erase(it);
  }
}

// The id and its log-probability go out at once; its text when no stop string can begin in it.
void TextThread::on_token(Answer& answer, sched::Event& event, Clock::time_point at) {
  answer.generation->note_token(event.token, at);
  Event out;
  out.id = event.token;
  out.logprobs = std::move(event.logprobs);
  if (answer.detokenizer) out.text = answer.stops.push(answer.detokenizer->push(event.token));
  answer.generation->push(std::move(out));
  if (!answer.stops.hit()) return;
  Event end;
  end.kind = EventKind::kFinished;
  end.finish_reason = FinishReason::kStop;
  // Before the consumer knows: what it asks next of a kept context comes after.
  inbox_->finish(answer.generation->seq(), FinishReason::kStop);
  answer.generation->push(std::move(end));
}

void TextThread::on_finished(Answer& answer, sched::Event& event) {
  Event out;
  const bool failed =
      event.reason == FinishReason::kFailed || event.reason == FinishReason::kKvExhausted;
  out.kind = failed ? EventKind::kFailed : EventKind::kFinished;
  out.finish_reason = event.reason;
  out.message = std::move(event.message);
  out.code = event.code;
  if (answer.detokenizer) {
    out.text = answer.stops.push(answer.detokenizer->finish());
    out.text += answer.stops.finish();
    if (answer.stops.hit()) out.finish_reason = FinishReason::kStop;
  }
  answer.generation->push(std::move(out));
}

}  // namespace kvern::engine
