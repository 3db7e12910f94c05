#include <fmt/format.h>

#include "compile/ir/tensor_graph.h"
#include "compile/ir/tensor_text.h"

namespace kvern::ir {
namespace {

constexpr int kMaxDepth = 64;

// Reads one graph: the whole text, or the inside of `graph { … }`. A body may read names of the
// graph around it without a `capture` line; the line is added then.
class Parser {
 public:
  Parser(TextCursor& cursor, int64_t default_opset, Parser* outer)
      : cursor_(cursor),
        default_opset_(default_opset),
        outer_(outer),
        depth_(outer == nullptr ? 0 : outer->depth_ + 1) {
    if (depth_ > kMaxDepth) cursor_.fail("graphs are nested too deeply");
  }

  TensorGraph parse(char end) {
    while (cursor_.peek() != end) {
      if (cursor_.accept_word("input")) {
        graph_.inputs.push_back(define(value_name()));
        parse_declared(graph_.inputs.back());
      } else if (cursor_.accept_word("const")) {
        const TensorValueId id = define(value_name());
        graph_.constants[id] = parse_array(cursor_);
      } else if (cursor_.accept_word("capture")) {
        parse_capture();
      } else if (cursor_.accept_word("output")) {
        graph_.outputs.push_back(read(value_name()));
        parse_declared(graph_.outputs.back());
      } else {
        parse_node();
      }
    }
    return std::move(graph_);
  }

 private:
  std::string value_name() {
    cursor_.expect('%');
    return cursor_.name();
  }

  TensorValueId define(std::string name) {
    const auto id = static_cast<TensorValueId>(graph_.values.size());
    if (!ids_.emplace(name, id).second) cursor_.fail(fmt::format("%{} is made twice", name));
    return graph_.add_value(std::move(name));
  }

  // kNoValue when neither this graph nor one around it has the name.
  TensorValueId look_up(const std::string& name) {
    if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
    const TensorValueId outer = outer_ == nullptr ? kNoValue : outer_->look_up(name);
    if (outer == kNoValue) return kNoValue;
    const TensorValueId own = define(name);
    graph_.captures.emplace_back(outer, own);
    return own;
  }

  TensorValueId read(const std::string& name) {
    const TensorValueId id = look_up(name);
    if (id == kNoValue) cursor_.fail(fmt::format("nothing before this makes %{}", name));
    return id;
  }

  void parse_capture() {
    if (outer_ == nullptr) cursor_.fail("only the body of a node captures values");
    const TensorValueId own = define(value_name());
    cursor_.expect('=');
    graph_.captures.emplace_back(outer_->read(value_name()), own);
  }

  // An optional type, with optional dims: ` int64[batch, 4, ?]`.
  void parse_declared(TensorValueId id) {
    TextCursor ahead = cursor_;
    const char next = ahead.peek();
    if (next == '%' || next == '_' || next == '}' || next == '\0') return;
    if (!element_type_from_name(ahead.word())) return;
    TensorValue& value = graph_.values[static_cast<size_t>(id)];
    value.type = parse_element_type(cursor_);
    if (!cursor_.accept('[')) return;
    value.has_shape = true;
    value.dims.clear();
    while (!cursor_.accept(']')) {
      if (!value.dims.empty()) cursor_.expect(',');
      value.dims.push_back(parse_dim());
    }
  }

  TensorDim parse_dim() {
    if (cursor_.accept('?')) return {};
    if (cursor_.peek() >= '0' && cursor_.peek() <= '9')
      return {.value = cursor_.integer(), .name = {}};
    return {.value = -1, .name = cursor_.name()};
  }

  void parse_node() {
    TensorNode node;
    std::vector<std::string> outputs;  // defined last: a node does not read what it makes
    do {
      outputs.push_back(cursor_.accept_word("_") ? "" : value_name());
    } while (cursor_.accept(','));
    cursor_.expect('=');
    const std::string_view op = cursor_.word();
    const size_t dot = op.rfind('.');
    if (dot != std::string_view::npos) node.domain = op.substr(0, dot);
    node.op = op.substr(dot == std::string_view::npos ? 0 : dot + 1);
    cursor_.expect('(');
    while (!cursor_.accept(')')) {
      if (!node.inputs.empty()) cursor_.expect(',');
      node.inputs.push_back(cursor_.accept_word("_") ? kNoValue : read(value_name()));
    }
    if (cursor_.accept('{')) {
      while (!cursor_.accept('}')) {
        if (!node.attrs.empty()) cursor_.expect(',');
        std::string key = cursor_.name();
        cursor_.expect('=');
        node.attrs[std::move(key)] = parse_attr();
      }
    }
    node.opset = cursor_.accept_word("opset") ? cursor_.integer() : default_opset_;
    if (cursor_.accept_word("named")) node.name = cursor_.quoted();
    for (std::string& name : outputs) {
      node.outputs.push_back(name.empty() ? kNoValue : define(std::move(name)));
    }
    graph_.nodes.push_back(std::move(node));
  }

  // Whether the number ahead is written as a float.
  bool real_ahead() const {
    TextCursor ahead = cursor_;
    return ahead.word().find_first_of(".en") != std::string_view::npos;
  }
  double attr_real() { return static_cast<float>(cursor_.real()); }

  TensorAttr parse_attr() {
    if (cursor_.peek() == '"') return cursor_.quoted();
    if (cursor_.peek() == '[') return parse_list();
    if (cursor_.accept_word("floats")) return parse_list_of<double>([&] { return attr_real(); });
    if (cursor_.accept_word("strings")) {
      return parse_list_of<std::string>([&] { return cursor_.quoted(); });
    }
    if (cursor_.accept_word("tensor")) return parse_array(cursor_);
    if (cursor_.accept_word("graph")) {
      cursor_.expect('{');
      auto body =
          std::make_shared<const TensorGraph>(Parser(cursor_, default_opset_, this).parse('}'));
      cursor_.expect('}');
      return body;
    }
    if (real_ahead()) return attr_real();
    return cursor_.integer();
  }

  template <class T, class One>
  std::vector<T> parse_list_of(One one) {
    std::vector<T> out;
    cursor_.expect('[');
    while (!cursor_.accept(']')) {
      if (!out.empty()) cursor_.expect(',');
      out.push_back(one());
    }
    return out;
  }

  TensorAttr parse_list() {
    TextCursor ahead = cursor_;
    ahead.expect('[');
    const char first = ahead.peek();
    if (first == '"') return parse_list_of<std::string>([&] { return cursor_.quoted(); });
    if (first != ']' && ahead.word().find_first_of(".en") != std::string_view::npos) {
      return parse_list_of<double>([&] { return attr_real(); });
    }
    return parse_list_of<int64_t>([&] { return cursor_.integer(); });
  }

  TextCursor& cursor_;
  int64_t default_opset_;
  Parser* outer_;
  int depth_;
  TensorGraph graph_;
  std::unordered_map<std::string, TensorValueId> ids_;
};

}  // namespace

TensorGraph parse_tensor_graph(std::string_view text, int64_t default_opset) {
  TextCursor cursor(text);
  return Parser(cursor, default_opset, nullptr).parse('\0');
}

}  // namespace kvern::ir
