#include "text/jinja_print.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_context.h"
#include "text/unicode.h"

namespace kvern::text::jinja {

std::string real_to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {

struct CodePoint {
  int32_t value;  // -1: a byte that is not UTF-8
  size_t length_bytes;
};

CodePoint code_point_at(std::string_view text, size_t at) {
  const Utf8Prefix prefix = utf8_prefix(text.substr(at, 4));
  if (prefix.state != Utf8Start::kComplete) return {-1, 1};
  int32_t value = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                   static_cast<utf8proc_ssize_t>(prefix.length_bytes), &value);
  return {value, prefix.length_bytes};
}

// str.isprintable() of a character above ASCII.
bool printable(int32_t c) {
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

// The text under construction: pays for every byte, so that a list that holds itself twice over at
// every level stops at the limit.
class Sink {
 public:
  explicit Sink(Context& context) : context_(context), charge_(context, 0) {}
  void add(std::string_view text) {
    context_.step(1 + text.size() / 64);
    charge_.add(text.size());
    out_ += text;
    if (out_.size() > static_cast<size_t>(context_.max_string_bytes())) {
      context_.fail("a text grows beyond the limit");
    }
  }
  std::string take() { return std::move(out_); }

 private:
  Context& context_;
  Charge charge_;
  std::string out_;
};

class ReprPrinter {
 public:
  explicit ReprPrinter(Context& context) : sink_(context) {}

  void value(const Value& value) {
    if (value.undefined()) return sink_.add("Undefined");
    if (value.none()) return sink_.add("None");
    if (value.boolean()) return sink_.add(*value.boolean() ? "True" : "False");
    if (value.integer()) return sink_.add(fmt::format("{}", *value.integer()));
    if (value.real()) return sink_.add(real_to_string(*value.real()));
    if (value.string()) return string(*value.string());
    if (value.list() && !value.generator()) return list(*value.list());
    if (value.dict()) return dict(*value.dict());
    sink_.add(fmt::format("<{}>", value.generator() ? "generator" : value.type_name()));
  }
  std::string take() { return sink_.take(); }

 private:
  void list(const List& list) {
    const bool round = list.kind != ListKind::kList;
    sink_.add(round ? "(" : "[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) sink_.add(", ");
      value(list.items[i]);
    }
    if (round && list.items.size() == 1) sink_.add(",");
    sink_.add(round ? ")" : "]");
  }

  void dict(const Dict& dict) {
    sink_.add(dict.is_namespace ? "<Namespace {" : "{");
    bool first = true;
    for (const auto& [key, item] : dict.entries) {
      if (!std::exchange(first, false)) sink_.add(", ");
      value(key);
      sink_.add(": ");
      value(item);
    }
    sink_.add(dict.is_namespace ? "}>" : "}");
  }

  // Python's quotes: single ones, unless only double ones spare an escape.
  void string(std::string_view text) {
    const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
    const char quote = doubled ? '"' : '\'';
    std::string quoted(1, quote);
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      if (c.value == quote || c.value == '\\') {
        quoted.push_back('\\');
        quoted.push_back(static_cast<char>(c.value));
      } else if (c.value == '\n' || c.value == '\r' || c.value == '\t') {
        quoted += c.value == '\n' ? "\\n" : c.value == '\r' ? "\\r" : "\\t";
      } else if (c.value >= 0 &&
                 (c.value < 0x20 || c.value == 0x7F || (c.value > 0x7F && !printable(c.value)))) {
        quoted += c.value < 0x100     ? fmt::format("\\x{:02x}", c.value)
                  : c.value < 0x10000 ? fmt::format("\\u{:04x}", c.value)
                                      : fmt::format("\\U{:08x}", c.value);
      } else {
        quoted.append(text, at, c.length_bytes);
      }
      at += c.length_bytes;
    }
    quoted.push_back(quote);
    sink_.add(quoted);
  }

  Sink sink_;
};

class JsonPrinter {
 public:
  JsonPrinter(Context& context, const JsonStyle& style)
      : context_(context), sink_(context), style_(style) {}

  void value(const Value& value) {
    if (value.none()) return sink_.add("null");
    if (value.boolean()) return sink_.add(*value.boolean() ? "true" : "false");
    if (value.integer()) return sink_.add(fmt::format("{}", *value.integer()));
    if (value.real()) return sink_.add(real(*value.real()));
    if (value.string()) return string(*value.string());
    if (value.list() && !value.generator()) return list(*value.list());
    if (value.mapping()) return dict(*value.dict());
    context_.fail(fmt::format("{} cannot become JSON", value.description()));
  }
  std::string take() { return sink_.take(); }

 private:
  static std::string real(double number) {
    if (std::isfinite(number)) return real_to_string(number);
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }

  void line_break() {
    if (!style_.broken) return;
    sink_.add("\n");
    for (int i = 0; i < level_; ++i) sink_.add(style_.indent);
  }

  void list(const List& list) {
    if (list.items.empty()) return sink_.add("[]");
    sink_.add("[");
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) sink_.add(style_.item_separator);
      line_break();
      value(list.items[i]);
    }
    --level_;
    line_break();
    sink_.add("]");
  }

  std::vector<std::pair<Value, Value>> sorted(const Dict& dict) {
    std::vector<std::pair<Value, Value>> entries = dict.entries;
    std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
      return less(context_, a.first, b.first);
    });
    return entries;
  }

  void dict(const Dict& dict) {
    if (dict.entries.empty()) return sink_.add("{}");
    sink_.add("{");
    ++level_;
    bool first = true;
    for (const auto& [key, item] : style_.sort_keys ? sorted(dict) : dict.entries) {
      if (!std::exchange(first, false)) sink_.add(style_.item_separator);
      line_break();
      this->key(key);
      sink_.add(style_.key_separator);
      value(item);
    }
    --level_;
    line_break();
    sink_.add("}");
  }

  void key(const Value& key) {
    if (key.string()) return string(*key.string());
    if (!key.none() && !key.number()) {
      context_.fail(fmt::format("a key of type {} cannot become JSON", key.type_name()));
    }
    sink_.add("\"");
    value(key);
    sink_.add("\"");
  }

  void string(std::string_view text) {
    std::string quoted = "\"";
    for (size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte < 0x7F || !style_.ensure_ascii) {
        json_byte(quoted, text[at++]);
        continue;
      }
      const CodePoint c = code_point_at(text, at);
      json_escape(quoted, c.value < 0 ? 0xFFFD : c.value);
      at += c.length_bytes;
    }
    quoted.push_back('"');
    sink_.add(quoted);
  }

  static void json_escape(std::string& out, int32_t c) {
    if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                         0xDC00 + ((c - 0x10000) & 0x3FF));
    }
  }

  static void json_byte(std::string& out, char c) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
    constexpr std::string_view kTo = "\"\\nrtbf";
    if (const size_t found = kFrom.find(c); found != kFrom.npos) {
      out.push_back('\\');
      out.push_back(kTo[found]);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json_escape(out, c);
    } else {
      out.push_back(c);
    }
  }

  Context& context_;
  Sink sink_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string to_repr(Context& context, const Value& value) {
  ReprPrinter printer(context);
  printer.value(value);
  return printer.take();
}

std::string to_string(Context& context, const Value& value) {
  if (value.undefined()) return {};
  if (value.string()) {
    context.step(value.string()->size() / 64);
    context.need(value.string()->size());
    return *value.string();
  }
  return to_repr(context, value);
}

std::string to_json(Context& context, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(context, style);
  printer.value(value);
  return printer.take();
}

}  // namespace kvern::text::jinja
