#include "text/splitter.h"

#include <fmt/format.h>

#include <optional>

#include "kvern/error.h"
#include "text/pre_tokenizer.h"
#include "text/regex.h"
#include "text/split_parts.h"
#include "text/unicode_forms.h"

namespace kvern::text {

struct Splitter::Compiled {
  Step step;
  std::optional<Regex> regex;
};

namespace {

std::vector<Part> regex_parts(Regex::Matcher& matcher, std::string_view text) {
  PartCollector collector(text.size());
  matcher.start(text);
  size_t at = 0;
  while (const auto match = matcher.find(at)) {
    collector.add_match(match->begin, match->end);
    at = match->end;
  }
  return std::move(collector).finish();
}

bool is_split(StepKind kind) {
  return kind >= StepKind::kScan && kind <= StepKind::kBertWords;
}

void check(const Step& step) {
  const auto wrong = [&](const char* what) {
    throw Error(Code::kInvalidModel,
                fmt::format("tokenizer: split step {} has {}", static_cast<int>(step.kind), what));
  };
  if (!is_split(step.kind)) wrong("a kind that splits nothing");
  if (step.kind == StepKind::kScan && (step.left < 0 || step.left >= kNumScanners)) {
    wrong("a scanner that is not known");
  }
  if (step.kind == StepKind::kMetaspace && (step.left < 0 || step.left > 2)) {
    wrong("a prepend scheme that is not known");
  }
  if (step.kind == StepKind::kMetaspace && step.text.empty()) wrong("no mark");
}

// The behaviour that the kinds without a choice have.
SplitBehavior behavior_of(const Step& step) {
  switch (step.kind) {
    case StepKind::kDigits:
      return step.left != 0 ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
    case StepKind::kMetaspace:
      return SplitBehavior::kMergedWithNext;
    case StepKind::kWords:
    case StepKind::kSplitSpaces:
      return SplitBehavior::kRemoved;
    default:
      return step.behavior;
  }
}

std::string marked(const Step& step, std::string_view text, Place place) {
  std::string out = replace_all(text, " ", step.text);
  const auto scheme = static_cast<PrependScheme>(step.left);
  const bool wanted = scheme == PrependScheme::kAlways ||
                      (scheme == PrependScheme::kFirst && place == Place::kStart);
  if (wanted && !out.starts_with(step.text)) out.insert(0, step.text);
  return out;
}

// Whitespace is dropped first, then punctuation stands alone.
std::vector<Step> expanded(std::span<const Step> steps) {
  std::vector<Step> out;
  for (const Step& step : steps) {
    check(step);
    if (step.kind == StepKind::kBertWords) {
      out.push_back({.kind = StepKind::kSplitSpaces});
      out.push_back({.kind = StepKind::kPunctuation});
    } else {
      out.push_back(step);
    }
  }
  return out;
}

}  // namespace

Splitter::Splitter(std::span<const Step> steps) {
  for (Step& step : expanded(steps)) {
    Compiled compiled{std::move(step), std::nullopt};
    if (compiled.step.kind == StepKind::kSplitRegex) compiled.regex.emplace(compiled.step.text);
    steps_.push_back(std::move(compiled));
  }
}

Splitter::~Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;

std::vector<Part> Splitter::parts(size_t step_index, std::string_view text,
                                  Scratch& scratch) const {
  const Step& step = steps_[step_index].step;
  switch (step.kind) {
    case StepKind::kSplitRegex: {
      std::unique_ptr<Regex::Matcher>& matcher = scratch.matchers[step_index];
      if (!matcher) matcher = std::make_unique<Regex::Matcher>(*steps_[step_index].regex);
      return regex_parts(*matcher, text);
    }
    case StepKind::kSplitText:
    case StepKind::kMetaspace:
      return literal_parts(text, step.text);
    case StepKind::kDigits:
      return digit_parts(text);
    case StepKind::kPunctuation:
      return punctuation_parts(text);
    case StepKind::kWords:
      return word_parts(text);
    case StepKind::kSplitSpaces:
      return space_parts(text);
    default:
      throw InternalError("splitter: a step that the constructor let in");
  }
}

void Splitter::split(std::string_view text, Place place, Scratch& scratch,
                     FunctionRef<void(std::string_view)> word) const {
  scratch.matchers.resize(steps_.size());
  run(0, text, place, scratch, word);
}

void Splitter::run(size_t step_index, std::string_view text, Place place, Scratch& scratch,
                   FunctionRef<void(std::string_view)> word) const {
  if (text.empty()) return;
  if (step_index == steps_.size()) return word(text);
  const Step& step = steps_[step_index].step;
  const auto place_of = [&](size_t begin) { return begin == 0 ? place : Place::kInside; };
  if (step.kind == StepKind::kScan) {
    const auto scanner = static_cast<Scanner>(step.left);
    for (size_t at = 0; at < text.size();) {
      const size_t end = word_end(scanner, text, at);
      run(step_index + 1, text.substr(at, end - at), place_of(at), scratch, word);
      at = end;
    }
    return;
  }
  if (step.kind == StepKind::kPrependSpace) {
    if (!text.starts_with(' ')) text = scratch.texts.emplace_back(" " + std::string(text));
    return run(step_index + 1, text, place, scratch, word);
  }
  if (step.kind == StepKind::kMetaspace) {
    text = scratch.texts.emplace_back(marked(step, text, place));
    if (step.right == 0) return run(step_index + 1, text, place, scratch, word);
  }
  for (const Part& part :
       joined_parts(parts(step_index, text, scratch), behavior_of(step), step.invert)) {
    run(step_index + 1, text.substr(part.begin, part.end - part.begin), place_of(part.begin),
        scratch, word);
  }
}

}  // namespace kvern::text
