#include "tests/run/sched/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "run/sched/scheduler.h"
#include "tests/run/fake_executor.h"

namespace kvern::sched {
namespace {

const char* name_of(FinishReason reason) {
  constexpr const char* kNames[] = {"none",      "stop",         "length", "exported",
                                    "cancelled", "kv_exhausted", "failed"};
  return kNames[static_cast<size_t>(reason)];
}

int32_t next_token(const std::vector<int32_t>& context) {
  int32_t sum = static_cast<int32_t>(context.size());
  for (const int32_t id : context) sum = (sum * 3 + id) % 50;
  return sum;
}

using Words = std::map<std::string, std::string>;

// "a=1 b" as {a: 1, b: ""}.
Words words_of(std::istringstream& in) {
  Words out;
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      out[word] = "";
    else
      out[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return out;
}

std::vector<int32_t> numbers(const std::string& text) {
  std::vector<int32_t> out;
  std::istringstream in(text);
  for (std::string number; std::getline(in, number, ',');) out.push_back(std::stoi(number));
  return out;
}

class Player {
 public:
  void command(const std::string& line);
  std::string take_output() { return std::exchange(output_, {}); }

 private:
  void start();
  void submit(SeqId id, const Words& words);
  bool step();
  void print_batch(const step::StepBatch& batch);
  void print_events();

  SchedulerOptions options_{64, 16, 4, 16};
  std::vector<kv::GroupConfig> groups_{{8, 4, 0}};
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<kv::PagePool> pages_;
  std::unique_ptr<testing::FakeExecutor> executor_;
  std::string output_;
  bool break_next_ = false;
  bool cache_ = false;
  std::map<int64_t, std::vector<int32_t>> contexts_;  // prompts and answers
  std::map<int64_t, std::shared_ptr<int>> uses_;      // of kept contexts
};

void Player::start() {
  if (scheduler_ != nullptr) return;
  scheduler_ = std::make_unique<Scheduler>(options_);
  pages_ = std::make_unique<kv::PagePool>(groups_);
  executor_ = std::make_unique<testing::FakeExecutor>(groups_, next_token, 2);
  executor_->on_run = [this](const step::StepBatch&) {
    if (std::exchange(break_next_, false)) throw InternalError("broken on purpose");
  };
}

void Player::command(const std::string& line) {
  std::istringstream in(line);
  std::string verb;
  in >> verb;
  if (verb == "options") {
    Words words = words_of(in);
    const auto set = [&](const char* name, int32_t& to) {
      if (words.contains(name)) to = std::stoi(words[name]);
    };
    set("tokens", options_.max_tokens_per_step);
    set("chunk", options_.prefill_chunk_tokens);
    set("sequences", options_.max_sequences);
    set("rows", options_.max_wanted_rows);
    cache_ = words.contains("cache");
    return;
  }
  if (verb == "groups") {
    groups_.clear();
    for (std::string group; in >> group;) {
      const size_t x = group.find('x'), w = group.find('w');
      const int32_t window = w == std::string::npos ? 0 : std::stoi(group.substr(w + 1));
      groups_.push_back({std::stoi(group), std::stoi(group.substr(x + 1)), window});
    }
    return;
  }
  start();
  int64_t id = -1;
  if (verb != "break" && verb != "step" && verb != "run" && verb != "flush") in >> id;
  if (verb == "drop") {
    uses_.erase(id);
    scheduler_->drop_context(SeqId(id));
  }
  if (verb == "flush") pages_->flush_cache();
  if (verb == "submit") return submit(SeqId(id), words_of(in));
  if (verb == "cancel") scheduler_->cancel(SeqId(id));
  if (verb == "pause" || verb == "resume") scheduler_->set_paused(SeqId(id), verb == "pause");
  if (verb == "break") break_next_ = true;
  if (verb == "step") step();
  if (verb == "run") {
    while (step()) {
    }
  }
}

void Player::submit(SeqId id, const Words& words) {
  Request request;
  request.id = id;
  const auto value = [&](const char* name) {
    const auto it = words.find(name);
    return it == words.end() ? std::string("0") : it->second;
  };
  int64_t like = id.value;
  if (words.contains("like")) like = std::stoi(value("like"));
  if (words.contains("base")) {
    const int64_t base = std::stoi(value("base"));
    request.base = SeqId(base);
    request.base_use = words.contains("fork") ? uses_[base] : std::exchange(uses_[base], {});
    request.prompt_ids = contexts_[base];
    if (words.contains("rewind")) {
      request.prompt_ids.resize(static_cast<size_t>(std::stoi(value("rewind"))));
    }
  }
  for (int i = 0; i < std::stoi(value("prompt")); ++i) {
    request.prompt_ids.push_back(static_cast<int32_t>((7 * like + i) % 50));
  }
  contexts_[id.value] = request.prompt_ids;
  request.use_prefix_cache = cache_;
  request.keep_context = words.contains("keep");
  if (request.keep_context) uses_[id.value] = std::make_shared<int>();
  request.max_new_tokens = std::stoi(value("max"));
  if (words.contains("stop")) request.stop_ids = numbers(value("stop"));
  request.recompute_context = words.contains("recompute");
  request.prompt_logprobs = words.contains("prompt_logprobs");
  if (words.contains("export")) {
    request.purpose = step::Purpose::kExport;
    request.export_rows = numbers(value("export"));
  }
  scheduler_->submit(std::move(request));
}

bool Player::step() {
  step::StepBatch batch = scheduler_->next(*pages_);
  print_batch(batch);
  if (!batch.empty()) {
    try {
      auto lease = pages_->exchange(batch.releases(), batch.needs());
      batch.page_copies = lease.page_copies();
      const step::StepResult result = executor_->run(batch, lease);
      lease.commit();
      for (const step::SequenceInput& part : batch.sequences) {
        if (part.cache) pages_->note_computed(part.seq, part.start, part.ids);
      }
      scheduler_->apply(batch, result);
    } catch (const InternalError& error) {
      scheduler_->abandon(batch, "broken");
      if (std::string(error.what()).find("on purpose") == std::string::npos) {
        output_ += fmt::format("  error {}\n", error.what());
      }
    }
    pages_->check_invariant();
  }
  print_events();
  output_ += fmt::format("  free {}\n", fmt::join(pages_->available(), " "));
  return !batch.empty();
}

void Player::print_batch(const step::StepBatch& batch) {
  if (batch.empty()) {
    output_ += "  idle\n";
    return;
  }
  output_ += "  batch";
  for (const step::SequenceInput& part : batch.sequences) {
    output_ += fmt::format(" {}[{}+{}", part.seq.value, part.start, part.count);
    if (part.logits == step::LogitsWanted::kLast) output_ += " sample";
    if (!part.logits_rows.empty())
      output_ += fmt::format(" rows {}", fmt::join(part.logits_rows, ","));
    output_ += "]";
  }
  for (const kv::Need& need : batch.page_needs) {
    if (need.begins) output_ += fmt::format(" begins {}:{}", need.seq.value, need.begins->tokens);
    const auto print = [&](const char* what, const auto& values) {
      if (std::none_of(values.begin(), values.end(), [](auto v) { return v != 0; })) return;
      output_ += fmt::format(" {} {}:{}", what, need.seq.value, fmt::join(values, ","));
    };
    print("drops", need.drops);
    print("copies", need.copies);
    print("takes", need.pages);
  }
  for (const SeqId id : batch.released) output_ += fmt::format(" frees {}", id.value);
  for (const auto& opened : batch.opened) output_ += fmt::format(" opens {}", opened.seq.value);
  for (const SeqId id : batch.closed) output_ += fmt::format(" closes {}", id.value);
  output_ += "\n";
}

void Player::print_events() {
  for (const Event& event : scheduler_->take_events()) {
    output_ += fmt::format("  {} ", event.seq.value);
    switch (event.kind) {
      case EventKind::kStarted:
        output_ += "started\n";
        break;
      case EventKind::kToken:
        output_ += fmt::format("token {}\n", event.token);
        contexts_[event.seq.value].push_back(event.token);
        break;
      case EventKind::kLogits:
        output_ +=
            fmt::format("logits row {} count {}\n", event.first_row, event.logits.size() / 2);
        break;
      case EventKind::kPromptLogprobs:
        output_ += fmt::format("prompt log-probabilities from {} count {}\n", event.first_row,
                               event.logprobs.size());
        break;
      case EventKind::kFinished:
        output_ += fmt::format("finished {}\n", name_of(event.reason));
    }
  }
}

}  // namespace

std::string play_trace(const std::string& script) {
  Player player;
  std::string out;
  std::istringstream in(script);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  ")) continue;  // the expected output
    out += line + "\n";
    if (line.empty() || line.starts_with("#")) continue;
    player.command(line);
    out += player.take_output();
  }
  return out;
}

}  // namespace kvern::sched
