// `'…' % …` and str.format().
#include <fmt/format.h>

#include <cmath>

#include "text/jinja_builtin.h"
#include "text/jinja_format_spec.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

class PercentFormatter {
 public:
  PercentFormatter(Context& context, std::string_view text, const Value& arguments)
      : context_(context), text_(text), arguments_(arguments) {}

  std::string run() {
    while (at_ < text_.size()) {
      const size_t percent = std::min(text_.find('%', at_), text_.size());
      out_ += text_.substr(at_, percent - at_);
      at_ = percent + 1;
      if (percent < text_.size()) field();
      context_.step();
      context_.need(out_.size());
    }
    const bool several = arguments_.list() && arguments_.list()->kind != ListKind::kList;
    if (several && next_ < arguments_.list()->items.size()) {
      context_.fail("'%' has more values than fields");
    }
    const bool countable =
        several || arguments_.string() || arguments_.number() || arguments_.none();
    if (!several && countable && next_ == 0) {
      context_.fail("'%' has a value, but no field for it");
    }
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Value next() {
    if (arguments_.list() && arguments_.list()->kind != ListKind::kList) {
      const std::vector<Value>& all = arguments_.list()->items;
      if (next_ >= all.size()) context_.fail("'%' has fewer values than fields");
      return all[next_++];
    }
    if (next_++ > 0) context_.fail("'%' has fewer values than fields");
    return arguments_;
  }

  Value named() {
    const size_t end = text_.find(')', at_);
    if (end == text_.npos) context_.fail("'%(' has no ')'");
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (!arguments_.mapping()) context_.fail("'%(name)' needs a dict");
    const Value* found = arguments_.dict()->find(context_, name);
    if (found == nullptr) {
      context_.fail(fmt::format("'%({})' has no value", name.substr(0, 64)));
    }
    return *found;
  }

  // Behind the '%'.
  void field() {
    const bool by_name = peek() == '(';
    Value value = by_name ? named() : Value();
    FormatSpec spec;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      const char flag = peek();
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.fill.assign(1, '0');
    }
    if (peek() == '*') context_.unsupported("a width of '*' behind '%'");
    spec.width = format_number(context_, text_, at_, 0);
    if (peek() == '.') {
      ++at_;
      spec.precision = format_number(context_, text_, at_, 0);
    }
    if (at_ == text_.size()) context_.fail("'%' at the end of a text has no type");
    const char type = text_[at_++];
    if (type == '%') {
      out_.push_back('%');
      return;
    }
    if (!by_name) value = next();
    out_ += converted(value, spec, type);
  }

  std::string converted(const Value& value, FormatSpec spec, char type) {
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        return text_field(value, spec, type);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return whole_field(value, spec, type);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        break;
      default:
        context_.unsupported(fmt::format("'%{}'", type));
    }
    if (!value.number()) mismatch(value, type);
    zero_fill(spec);
    spec.type = type;
    return format_value(context_, Value(value.as_real()), spec);
  }

  [[noreturn]] void mismatch(const Value& value, char type) {
    context_.fail(fmt::format("'%{}' needs a number, not {}", type, value.description()));
  }

  static void zero_fill(FormatSpec& spec) {
    if (spec.align == '<') spec.fill.assign(1, ' ');
    if (spec.fill == "0") spec.align = '=';
  }

  std::string text_field(const Value& value, FormatSpec spec, char type) {
    if (type == 'a') context_.unsupported("'%a'");
    std::string text = type == 's' ? to_string(context_, value) : to_repr(context_, value);
    spec.fill.assign(1, ' ');
    if (spec.align == 0) spec.align = '>';
    return format_value(context_, Value::text(context_, std::move(text)), spec);
  }

  std::string whole_field(const Value& value, FormatSpec spec, char type) {
    if (!value.number()) mismatch(value, type);
    int64_t number = 0;
    if (value.real()) {
      const bool decimal = type == 'd' || type == 'i' || type == 'u';
      if (!decimal || !(std::abs(*value.real()) < 9e18)) mismatch(value, type);
      number = static_cast<int64_t>(*value.real());
    } else {
      number = value.as_integer();
    }
    if (spec.precision > 0) context_.unsupported("a precision of integers behind '%'");
    zero_fill(spec);
    spec.precision = -1;
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    return format_value(context_, Value(number), spec);
  }

  Context& context_;
  std::string_view text_;
  const Value& arguments_;
  size_t at_ = 0;
  size_t next_ = 0;
  std::string out_;
};

class BraceFormatter {
 public:
  BraceFormatter(Context& context, const std::string& text, const Arguments& given)
      : context_(context), text_(text), given_(given) {}

  std::string run() {
    context_.step(1 + text_.size() / 64);
    context_.need(text_.size());
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c != '{' && c != '}') {
        out_.push_back(c);
      } else if (i + 1 < text_.size() && text_[i + 1] == c) {
        out_.push_back(text_[i++]);
      } else {
        i = field(i);
      }
    }
    return std::move(out_);
  }

 private:
  // {name!conversion:format} from the brace at `begin`; returns where it ends.
  size_t field(size_t begin) {
    const size_t end = text_.find('}', begin);
    if (text_[begin] == '}' || end == std::string::npos) {
      context_.fail("format(): a brace has no partner");
    }
    std::string_view whole = std::string_view(text_).substr(begin + 1, end - begin - 1);
    context_.step(1 + whole.size() / 64);
    if (whole.find('{') != whole.npos) context_.unsupported("a field of format() inside a field");
    const size_t colon = std::min(whole.find(':'), whole.size());
    const std::string_view format = colon < whole.size() ? whole.substr(colon + 1) : "";
    whole = whole.substr(0, colon);
    const size_t mark = std::min(whole.find('!'), whole.size());
    const std::string_view conversion = whole.substr(mark);
    Value value = value_of(whole.substr(0, mark));
    if (conversion == "!r") {
      value = Value::text(context_, to_repr(context_, value));
    } else if (conversion == "!s") {
      value = Value::text(context_, to_string(context_, value));
    } else if (!conversion.empty()) {
      context_.unsupported("a conversion of format() other than !s and !r");
    }
    const FormatSpec spec = parse_format_spec(context_, format);
    out_ += format.empty() ? to_string(context_, value) : format_value(context_, value, spec);
    context_.need(out_.size());
    return end;
  }

  // `0.name[key]`.
  Value value_of(std::string_view field) {
    const size_t head_size = std::min(field.find_first_of(".["), field.size());
    Value value = argument(field.substr(0, head_size));
    field.remove_prefix(head_size);
    while (!field.empty()) {
      context_.step();
      const bool item = field[0] == '[';
      const size_t end =
          item ? field.find(']') : std::min(field.find_first_of(".[", 1), field.size());
      if (end == field.npos || end < 2) context_.fail("format(): a field is not complete");
      const std::string_view name = field.substr(1, end - 1);
      if (!item) {
        value = attribute(context_, value, std::string(name));
      } else {
        size_t at = 0;
        const int64_t index = format_number(context_, name, at, -1);
        value =
            subscript(context_, value,
                      at == name.size() ? Value(index) : Value::text(context_, std::string(name)));
      }
      field.remove_prefix(item ? end + 1 : end);
    }
    return value;
  }

  Value argument(std::string_view name) {
    size_t at = 0;
    const bool counted = name.empty();
    const int64_t index = counted ? static_cast<int64_t>(next_++)
                                  : format_number(context_, name.substr(0, 4), at, -1);
    if (counted || (index >= 0 && at == name.size())) {
      if (static_cast<size_t>(index) < given_.positional.size()) {
        return given_.positional[static_cast<size_t>(index)];
      }
      context_.fail("format() has fewer values than fields");
    }
    context_.step_search(given_.named.size(), name.size());
    for (const auto& [known, value] : given_.named) {
      if (*known.string() == name) return value;
    }
    context_.fail(fmt::format("format() has no value for '{}'", name.substr(0, 64)));
  }

  Context& context_;
  const std::string& text_;
  const Arguments& given_;
  size_t next_ = 0;
  std::string out_;
};

Value format_method(Context& context, const Value& input, Given given) {
  return Value::text(context, BraceFormatter(context, *input.string(), given.raw).run());
}

constexpr Builtin kMethods[] = {
    {"format", "*", format_method},
};

}  // namespace

std::string format_percent(Context& context, const std::string& text, const Value& arguments) {
  context.step(1 + text.size() / 64);
  return PercentFormatter(context, text, arguments).run();
}

std::span<const Builtin> format_methods() {
  return kMethods;
}

}  // namespace kvern::text::jinja
