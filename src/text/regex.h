// PCRE2 with Unicode classes, compiled by its JIT where it has one, for patterns without a
// hand-written scanner. Match and heap limits bound what a hostile pattern can cost.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kvern::text {

class Regex {
 public:
  // Throws Error(kInvalidModel) with the place where the pattern goes wrong.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // One text under search; bytes that are not UTF-8 match nothing. A matcher belongs to one thread.
  class Matcher {
   public:
    Matcher(const Regex& regex, std::string_view text);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    struct Match {
      size_t begin;
      size_t end;
    };
    // The first match at or after `from` that is not empty. Throws Error(kInvalidRequest) when the
    // pattern meets its limits on this text.
    std::optional<Match> find(size_t from);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace kvern::text
