#include "text/regex.h"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "kvern/error.h"
#include "text/oniguruma.h"

namespace kvern::text {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimit_kib = 64 * 1024;
constexpr size_t kJitStack_bytes = 1 << 20;
constexpr size_t kMaxPattern_bytes = 1 << 16;

}  // namespace

struct Regex::State {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~State() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern) {
  if (pattern.size() > kMaxPattern_bytes) {
    throw Error(Code::kInvalidModel, fmt::format("tokenizer: a split pattern of {} bytes; at most "
                                                 "{} work",
                                                 pattern.size(), kMaxPattern_bytes));
  }
  const std::string rewritten = pcre2_of_oniguruma(pattern);
  auto state = std::make_unique<State>();
  int error = 0;
  size_t offset = 0;
  state->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C,
      &error, &offset, nullptr);
  if (state->code == nullptr) {
    unsigned char text[256] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    throw Error(Code::kInvalidModel,
                fmt::format("tokenizer: split pattern '{}': {} (at byte {})", pattern,
                            reinterpret_cast<const char*>(text), offset));
  }
  state->jit = pcre2_jit_compile(state->code, PCRE2_JIT_COMPLETE) == 0;
  state_ = std::move(state);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

struct Regex::Matcher::State {
  const Regex::State* regex;
  std::string_view text;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

Regex::Matcher::Matcher(const Regex& regex) : state_(std::make_unique<State>()) {
  state_->regex = regex.state_.get();
  state_->data = pcre2_match_data_create_from_pattern(state_->regex->code, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  if (state_->data == nullptr || state_->context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context, kMatchLimit);
  pcre2_set_heap_limit(state_->context, kHeapLimit_kib);
  if (state_->regex->jit) {
    state_->stack = pcre2_jit_stack_create(32 * 1024, kJitStack_bytes, nullptr);
    pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
  }
}

Regex::Matcher::~Matcher() = default;

void Regex::Matcher::start(std::string_view text) {
  state_->text = text;
}

std::optional<Regex::Matcher::Match> Regex::Matcher::find(size_t from) {
  if (from >= state_->text.size()) return std::nullopt;
  const int rc =
      pcre2_match(state_->regex->code, reinterpret_cast<PCRE2_SPTR>(state_->text.data()),
                  state_->text.size(), from, PCRE2_NOTEMPTY, state_->data, state_->context);
  if (rc == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (rc < 0) {
    throw Error(Code::kInvalidRequest,
                fmt::format("tokenizer: the model's split pattern met its limits on this text "
                            "(PCRE2 error {}); shorten the text or break its longest line",
                            rc));
  }
  const size_t* ends = pcre2_get_ovector_pointer(state_->data);
  return Match{ends[0], ends[1]};
}

}  // namespace kvern::text
