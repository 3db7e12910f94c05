#include "text/normalizer.h"

#include <fmt/format.h>

#include <optional>

#include "kvern/error.h"
#include "text/chars_map.h"
#include "text/regex.h"
#include "text/unicode.h"
#include "text/unicode_forms.h"

namespace kvern::text {
namespace {

std::string strip(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  while (left && begin < text.size()) {
    const CodePoint c = code_point_at(text, begin);
    if (!c.valid || !is_white_space(c.value)) break;
    begin += c.length_bytes;
  }
  size_t end = begin;  // behind the last character that is no space
  for (size_t at = begin; right && at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    at += c.length_bytes;
    if (!c.valid || !is_white_space(c.value)) end = at;
  }
  return std::string(text.substr(begin, (right ? end : text.size()) - begin));
}

std::string replace_matches(const Regex& regex, std::string_view text, std::string_view with) {
  std::string out;
  size_t at = 0;
  Regex::Matcher matcher(regex);
  matcher.start(text);
  while (const auto match = matcher.find(at)) {
    out.append(text.substr(at, match->begin - at)).append(with);
    at = match->end;
  }
  return out.append(text.substr(at));
}

// SentencePiece's remove_extra_whitespaces: none at the ends, one between words; at the end its
// mark counts as one.
std::string squeeze_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out.push_back(c);
  }
  constexpr std::string_view kMark = "\u2581";
  while (out.ends_with(' ') || out.ends_with(kMark)) {
    out.resize(out.size() - (out.ends_with(' ') ? 1 : kMark.size()));
  }
  return out;
}

bool is_removed_control(uint32_t c) {
  return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}

bool is_odd_space(uint32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.valid && is_odd_space(c.value)) {
      out.push_back(' ');
    } else if (!c.valid || !is_removed_control(c.value)) {
      out += text.substr(at, c.length_bytes);
    }
    at += c.length_bytes;
  }
  return out;
}

std::string without_marks(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (!c.valid || !is_mark_character(c.value)) out += text.substr(at, c.length_bytes);
    at += c.length_bytes;
  }
  return out;
}

bool prepends(const Step& step, Place place) {
  const auto mode = static_cast<PrependMode>(step.left);
  return mode == PrependMode::kEverywhere || place == Place::kStart ||
         (mode == PrependMode::kPieces && place == Place::kInside);
}

}  // namespace

struct Normalizer::Compiled {
  Step step;
  std::optional<Regex> regex;
  std::optional<CharsMap> map;

  std::string apply(std::string text, Place place) const;
};

std::string Normalizer::Compiled::apply(std::string text, Place place) const {
  switch (step.kind) {
    case StepKind::kNfc:
      return normalized(text, NormalForm::kNfc);
    case StepKind::kNfd:
      return normalized(text, NormalForm::kNfd);
    case StepKind::kNfkc:
      return normalized(text, NormalForm::kNfkc);
    case StepKind::kNfkd:
      return normalized(text, NormalForm::kNfkd);
    case StepKind::kLowercase:
      return fully_lowered(text);
    case StepKind::kStripAccents:
      return without_marks(text);
    case StepKind::kStrip:
      return strip(text, step.left != 0, step.right != 0);
    case StepKind::kPrepend:
      return !text.empty() && prepends(step, place) ? step.text + text : text;
    case StepKind::kReplace:
      return replace_all(text, step.text, step.with);
    case StepKind::kReplaceRegex:
      return replace_matches(*regex, text, step.with);
    case StepKind::kCharsMap: {
      std::string out;
      map->append(text, static_cast<CharsMapMode>(step.left), out);
      return out;
    }
    case StepKind::kNmt:
      return without_controls(text);
    case StepKind::kSqueezeSpaces:
      return squeeze_spaces(text);
    default:
      throw InternalError("normalizer: a step that the constructor let in");
  }
}

Normalizer::Normalizer(std::span<const Step> steps) {
  for (const Step& step : steps) {
    if (step.kind < StepKind::kNfc || step.kind > StepKind::kSqueezeSpaces) {
      throw Error(Code::kInvalidModel,
                  fmt::format("tokenizer: step {} is no normaliser", static_cast<int>(step.kind)));
    }
    Compiled compiled{step, std::nullopt, std::nullopt};
    if (step.kind == StepKind::kReplaceRegex) compiled.regex.emplace(step.text);
    if (step.kind == StepKind::kCharsMap) {
      if (step.left < 0 || step.left > 1) {
        throw Error(Code::kInvalidModel,
                    fmt::format("tokenizer: {} is no way to apply a normalisation map", step.left));
      }
      compiled.map.emplace(step.text);
      compiled.step.text.clear();
    }
    steps_.push_back(std::move(compiled));
  }
}

Normalizer::~Normalizer() = default;
Normalizer::Normalizer(Normalizer&&) noexcept = default;
Normalizer& Normalizer::operator=(Normalizer&&) noexcept = default;

std::string Normalizer::apply(std::string_view text, Place place) const {
  std::string out(text);
  // A few steps that each double a text would fill any memory.
  const size_t limit = 64 * text.size() + 65536;
  for (const Compiled& step : steps_) {
    out = step.apply(std::move(out), place);
    if (out.size() > limit) {
      throw Error(
          Code::kInvalidModel,
          fmt::format("tokenizer: its normalisers make {} bytes of {}; the model is damaged",
                      out.size(), text.size()));
    }
  }
  return out;
}

}  // namespace kvern::text
