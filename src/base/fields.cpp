#include "base/fields.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/quoted.h"

namespace kvern {
namespace fields_internal {

double shortest(float value) {
  const std::string text = fmt::format("{}", value);
  double wide = value;
  std::from_chars(text.data(), text.data() + text.size(), wide);
  return static_cast<float>(wide) == value ? wide : value;
}

void wrong_type(std::string_view name) {
  throw Error(Code::kInvalidPlan, fmt::format("field '{}' holds a value of the wrong type", name));
}

void out_of_range(std::string_view name, int64_t value) {
  throw Error(Code::kInvalidPlan, fmt::format("field '{}' cannot hold {}", name, value));
}

}  // namespace fields_internal

void check_known_field(bool known, const NamedField& given) {
  if (known) return;
  throw Error(Code::kInvalidPlan, fmt::format("unknown field {} '{}': written by a newer version?",
                                              given.number, given.name));
}

namespace {

std::string print_double(double value) {
  std::string text = fmt::format("{}", value);
  // A double must come back as a double: "2" would be read as an integer.
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

struct ValuePrinter {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return print_double(v); }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const std::vector<int64_t>& v) const {
    return fmt::format("[{}]", fmt::join(v, ", "));
  }
  std::string operator()(const std::vector<double>& v) const {
    std::string out = "[";
    for (size_t i = 0; i < v.size(); ++i) out += (i > 0 ? ", " : "") + print_double(v[i]);
    return (v.empty() ? "[." : out) + "]";
  }
};

// Recursive descent over `{name = value, …}`; no nesting beyond one list, so no depth to cap.
class FieldParser {
 public:
  explicit FieldParser(std::string_view text) : text_(text) {}

  std::vector<NamedField> parse() {
    std::vector<NamedField> out;
    expect('{');
    while (!accept('}')) {
      if (!out.empty()) expect(',');
      NamedField field;
      field.name = identifier();
      expect('=');
      field.value = value();
      out.push_back(std::move(field));
    }
    skip_space();
    if (at_ != text_.size()) fail("end of text");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    throw Error(Code::kInvalidModel,
                fmt::format("attributes '{}': column {}: expected {}", text_, at_ + 1, wanted));
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}'", c));
  }
  std::string identifier() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    if (begin == at_) fail("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  FieldValue value() {
    const char c = peek();
    if (c == '"') return string();
    if (c == '[') return list();
    if (c == 't' || c == 'f') return boolean();
    return number();
  }
  bool boolean() {
    const std::string word = identifier();
    if (word != "true" && word != "false") fail("true or false");
    return word == "true";
  }
  std::string string() {
    expect('"');
    std::optional<std::string> value = read_quoted(text_, at_);
    if (!value) fail("a closing quote");
    return *std::move(value);
  }
  FieldValue number() {
    skip_space();
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    int64_t integer = 0;
    const auto as_int = std::from_chars(begin, end, integer);
    double real = 0;
    const auto as_real = std::from_chars(begin, end, real);
    if (as_real.ec != std::errc()) fail("a number");
    at_ = static_cast<size_t>(as_real.ptr - text_.data());
    if (as_int.ec == std::errc() && as_int.ptr == as_real.ptr) return integer;
    return real;
  }
  FieldValue list() {
    expect('[');
    if (accept('.')) {
      expect(']');
      return std::vector<double>();
    }
    std::vector<int64_t> integers;
    std::vector<double> reals;
    while (!accept(']')) {
      if (!integers.empty() || !reals.empty()) expect(',');
      const FieldValue item = number();
      if (std::holds_alternative<double>(item))
        reals.push_back(std::get<double>(item));
      else
        integers.push_back(std::get<int64_t>(item));
      if (!integers.empty() && !reals.empty()) fail("numbers of one kind in the list");
    }
    if (!reals.empty()) return reals;
    return integers;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string print_fields(const std::vector<NamedField>& fields) {
  std::string out = "{";
  for (const NamedField& field : fields) {
    if (out.size() > 1) out += ", ";
    out += field.name + " = " + std::visit(ValuePrinter{}, field.value);
  }
  return out + "}";
}

std::vector<NamedField> parse_fields(std::string_view text) {
  return FieldParser(text).parse();
}

}  // namespace kvern
