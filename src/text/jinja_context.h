// What a rendering may still use, and where it is. Every builtin gets it: the one way to fail and
// to pay for work.
#pragma once

#include <cstdint>
#include <string>

#include "text/chat_template.h"

namespace kvern::text::jinja {

class Context {
 public:
  Context(const TemplateLimits& limits, int64_t unix_time_s)
      : unix_time_s_(unix_time_s),
        max_string_bytes_(limits.max_output_bytes),
        max_depth_(limits.max_depth),
        steps_left_(limits.max_steps),
        bytes_left_(16 * limits.max_output_bytes) {}

  // `count` small units of work: a node visited, an item compared, 64 bytes searched.
  void step(uint64_t count = 1) {
    steps_left_ -= static_cast<int64_t>(count);
    if (steps_left_ < 0) fail("the template takes too many steps");
  }
  // A search for a name of `bytes` bytes among `count`: other lengths are passed over at once,
  // equal ones are compared.
  void step_search(uint64_t count, uint64_t bytes) {
    step(1 + bytes / 64 + count / 8 + count * (bytes / 64));
  }
  // Memory asked for, never given back: one string is capped, and so is their sum.
  void charge(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(max_string_bytes_)) fail("a text grows beyond the limit");
    bytes_left_ -= static_cast<int64_t>(bytes);
    if (bytes_left_ < 0) fail("the template uses too much memory");
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
  int64_t unix_time_s_;
  int64_t max_string_bytes_;
  int max_depth_;
  int64_t steps_left_;
  int64_t bytes_left_;
  int depth_ = 0;
  int line_ = 1;
};

}  // namespace kvern::text::jinja
