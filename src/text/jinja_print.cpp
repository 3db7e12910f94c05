#include "text/jinja_print.h"

#include <fmt/format.h>

#include <cmath>

#include "text/jinja_context.h"

namespace kvern::text::jinja {

std::string real_to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {

// Writes a value with its parts; pays for every byte, so that a list that holds itself twice over
// at every level stops at the limit.
class Printer {
 public:
  Printer(Context& context, bool json, int indent)
      : context_(context), json_(json), indent_(indent) {}

  void value(const Value& value) {
    if (value.undefined()) return undefined(value);
    if (value.none()) return add(json_ ? "null" : "None");
    if (value.boolean()) {
      return add(*value.boolean() ? (json_ ? "true" : "True") : (json_ ? "false" : "False"));
    }
    if (value.integer()) return add(fmt::format("{}", *value.integer()));
    if (value.real()) return real(*value.real());
    if (value.string()) return json_ ? json_string(*value.string()) : repr_string(*value.string());
    if (value.list()) return list(*value.list());
    if (value.dict() && !(json_ && value.dict()->is_namespace)) return dict(*value.dict());
    if (json_) context_.fail(fmt::format("a {} cannot become JSON", value.type_name()));
    add(fmt::format("<{}>", value.type_name()));
  }

  std::string take() { return std::move(out_); }

 private:
  void add(std::string_view text) {
    context_.step();
    context_.charge(text.size());
    out_ += text;
  }

  void undefined(const Value& value) {
    if (json_)
      context_.fail(
          fmt::format("'{}' is undefined and cannot become JSON", value.undefined_name()));
    add("Undefined");
  }

  void real(double number) {
    if (!json_ || std::isfinite(number)) return add(real_to_string(number));
    add(std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
  }

  void line_break(int level) {
    if (indent_ < 0) return;
    add("\n");
    add(std::string(static_cast<size_t>(indent_ * level), ' '));
  }

  std::string_view separator() const { return indent_ < 0 ? ", " : ","; }

  void list(const List& list) {
    const bool round = list.is_tuple && !json_;
    add(round ? "(" : "[");
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) add(separator());
      line_break(level_);
      value(list.items[i]);
    }
    --level_;
    if (!list.items.empty()) line_break(level_);
    if (round && list.items.size() == 1) add(",");
    add(round ? ")" : "]");
  }

  void dict(const Dict& dict) {
    add("{");
    ++level_;
    bool first = true;
    for (const auto& [key, item] : dict.entries) {
      if (!first) add(separator());
      first = false;
      line_break(level_);
      json_ ? json_string(key) : repr_string(key);
      add(": ");
      value(item);
    }
    --level_;
    if (!dict.entries.empty()) line_break(level_);
    add("}");
  }

  void json_string(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
      switch (c) {
        case '"':
          quoted += "\\\"";
          break;
        case '\\':
          quoted += "\\\\";
          break;
        case '\n':
          quoted += "\\n";
          break;
        case '\r':
          quoted += "\\r";
          break;
        case '\t':
          quoted += "\\t";
          break;
        case '\b':
          quoted += "\\b";
          break;
        case '\f':
          quoted += "\\f";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
          } else {
            quoted.push_back(c);
          }
      }
    }
    quoted.push_back('"');
    add(quoted);
  }

  // Python's quotes: single ones, unless only double ones spare an escape.
  void repr_string(std::string_view text) {
    const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
    const char quote = doubled ? '"' : '\'';
    std::string quoted(1, quote);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == quote || c == '\\') {
        quoted.push_back('\\');
        quoted.push_back(c);
      } else if (c == '\n' || c == '\r' || c == '\t') {
        quoted += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
      } else if (byte < 0x20 || byte == 0x7F) {
        quoted += fmt::format("\\x{:02x}", byte);
      } else {
        quoted.push_back(c);
      }
    }
    quoted.push_back(quote);
    add(quoted);
  }

  Context& context_;
  bool json_;
  int indent_;
  int level_ = 0;
  std::string out_;
};

}  // namespace

std::string to_string(Context& context, const Value& value) {
  if (value.undefined()) return {};
  if (value.string()) {
    context.charge(value.string()->size());
    return *value.string();
  }
  Printer printer(context, false, -1);
  printer.value(value);
  return printer.take();
}

std::string to_json(Context& context, const Value& value, int indent) {
  Printer printer(context, true, indent);
  printer.value(value);
  return printer.take();
}

}  // namespace kvern::text::jinja
