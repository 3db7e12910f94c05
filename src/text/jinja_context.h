// What a rendering may still use, and where it is. Every builtin gets it: the one way to fail and
// to pay for work and memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "text/chat_template.h"

namespace kvern::text::jinja {

class Context {
 public:
  Context(const TemplateLimits& limits, int64_t unix_time_s)
      : unix_time_s_(unix_time_s),
        max_string_bytes_(limits.max_output_bytes),
        max_depth_(limits.max_depth),
        steps_left_(limits.max_steps),
        bytes_left_(4 * limits.max_output_bytes) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // `count` small units of work: a node visited, an item compared, 64 bytes searched or copied.
  void step(uint64_t count = 1) {
    if (count > static_cast<uint64_t>(steps_left_)) {
      steps_left_ = 0;
      fail("the template takes too many steps");
    }
    steps_left_ -= static_cast<int64_t>(count);
  }
  // A search for a name of `bytes` bytes among `count`: other lengths are passed over at once,
  // equal ones are compared.
  void step_search(uint64_t count, uint64_t bytes) {
    step(1 + bytes / 64 + count / 8 + count * (bytes / 64));
  }
  // Before something of `bytes` bytes is made: one string is capped, and so is all that lives.
  void need(uint64_t bytes) const {
    if (bytes > static_cast<uint64_t>(max_string_bytes_)) fail("a text grows beyond the limit");
    if (bytes > static_cast<uint64_t>(bytes_left_)) fail("the template uses too much memory");
  }
  // One level of the walk over the tree. Macros may call themselves, so the tree's depth alone does
  // not bound the stack.
  class Level {
   public:
    explicit Level(Context& context) : context_(context) {
      if (++context_.depth_ > 3 * context_.max_depth_) {
        context_.fail("the template nests or calls itself too deeply");
      }
    }
    ~Level() { --context_.depth_; }

   private:
    Context& context_;
  };
  int max_depth() const { return max_depth_; }
  int64_t max_string_bytes() const { return max_string_bytes_; }
  int64_t unix_time_s() const { return unix_time_s_; }
  void set_line(int line) { line_ = line; }

  // Throw Error(kInvalidRequest) and Error(kUnsupported) naming the line.
  [[noreturn]] void fail(const std::string& problem) const;
  [[noreturn]] void unsupported(const std::string& what) const;

 private:
  friend class Charge;
  void take(uint64_t bytes) {
    need(bytes);
    bytes_left_ -= static_cast<int64_t>(bytes);
  }

  int64_t unix_time_s_;
  int64_t max_string_bytes_;
  int max_depth_;
  int64_t steps_left_;
  int64_t bytes_left_;
  int depth_ = 0;
  int line_ = 1;
};

// Memory of a context, given back at the end of what it was taken for. A context outlives the
// values made with it.
class Charge {
 public:
  Charge() = default;
  Charge(Context& context, uint64_t bytes) : context_(&context) { add(bytes); }
  Charge(Charge&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (context_ != nullptr) context_->bytes_left_ += static_cast<int64_t>(bytes_);
  }

  void add(uint64_t bytes) {
    context_->take(bytes);
    bytes_ += bytes;
  }

 private:
  Context* context_ = nullptr;  // null: of the template itself, which nobody pays for
  uint64_t bytes_ = 0;
};

}  // namespace kvern::text::jinja
