// Patterns without a hand-written scanner, in Oniguruma's syntax (text/oniguruma.h), searched by
// PCRE2 with its JIT where it has one. Match and heap limits bound what a hostile pattern can cost.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kvern::text {

class Regex {
 public:
  // Throws Error(kInvalidModel) with the place where the pattern goes wrong, Error(kUnsupported)
  // for what PCRE2 would understand otherwise.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Searches one text after another; bytes that are not UTF-8 match nothing. A matcher belongs to
  // one thread. Making one costs as much as searching a page of text.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    struct Match {
      size_t begin;
      size_t end;
    };
    // The text of the finds that follow.
    void start(std::string_view text);
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
