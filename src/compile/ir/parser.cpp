#include <fmt/format.h>

#include "compile/ir/graph.h"
#include "compile/ir/recipe_parser.h"
#include "compile/ir/text_cursor.h"

namespace kvern::ir {
namespace {

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : cursor_(text) {}
  Graph parse();

 private:
  void parse_node();
  std::vector<ValueId> parse_inputs();
  Attrs parse_attrs(const OpSchema& op);
  Type parse_type();
  std::vector<std::string> parse_output_names();
  std::string parse_value_name();
  void check_types(const std::vector<ValueId>& outputs);

  TextCursor cursor_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
};

Graph GraphParser::parse() {
  cursor_.expect_word("graph");
  graph_.family = cursor_.quoted();
  cursor_.expect('{');
  RecipeParser recipes(cursor_, graph_);
  while (recipes.parse_line()) {
  }
  while (!cursor_.accept('}')) parse_node();
  if (cursor_.peek() != '\0') cursor_.fail("expected the end of the text");
  return std::move(graph_);
}

std::string GraphParser::parse_value_name() {
  cursor_.expect('%');
  return cursor_.name();
}

std::vector<std::string> GraphParser::parse_output_names() {
  std::vector<std::string> names;
  if (cursor_.peek() != '%') return names;
  do {
    const size_t at = cursor_.position();
    names.push_back(parse_value_name());
    if (!values_.emplace(names.back(), ValueId()).second) {
      cursor_.fail_at(at, fmt::format("%{} is defined twice", names.back()));
    }
  } while (cursor_.accept(','));
  cursor_.expect('=');
  return names;
}

std::vector<ValueId> GraphParser::parse_inputs() {
  std::vector<ValueId> inputs;
  cursor_.expect('(');
  if (cursor_.accept(')')) return inputs;
  do {
    const size_t at = cursor_.position();
    const std::string name = parse_value_name();
    const auto found = values_.find(name);
    if (found == values_.end() || !found->second.valid()) {
      cursor_.fail_at(at, fmt::format("%{} is used before it is defined", name));
    }
    inputs.push_back(found->second);
  } while (cursor_.accept(','));
  cursor_.expect(')');
  return inputs;
}

Attrs GraphParser::parse_attrs(const OpSchema& op) {
  if (cursor_.peek() != '{') return op.default_attrs();
  const size_t at = cursor_.position();
  const std::string_view text = cursor_.braces();
  try {
    return op.default_attrs().with(parse_fields(text));
  } catch (const Error& error) {
    cursor_.fail_at(at, fmt::format("{}: {}", op.name, error.what()));
  }
}

Type GraphParser::parse_type() {
  if (cursor_.accept('!')) {
    cursor_.expect_word("kv");
    return Type::kv();
  }
  const size_t at = cursor_.position();
  const auto dtype = dtype_from_name(cursor_.word());
  if (!dtype) cursor_.fail_at(at, "expected a type, such as f32[tokens, 576] or !kv");
  std::vector<Dim> dims;
  cursor_.expect('[');
  while (!cursor_.accept(']')) {
    if (!dims.empty()) cursor_.expect(',');
    const char c = cursor_.peek();
    if ((c >= '0' && c <= '9') || c == '-')
      dims.emplace_back(cursor_.integer());
    else
      dims.emplace_back(std::string(cursor_.word()));
  }
  return Type::tensor(*dtype, std::move(dims));
}

void GraphParser::check_types(const std::vector<ValueId>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    cursor_.expect(i == 0 ? ':' : ',');
    const size_t at = cursor_.position();
    const Type type = parse_type();
    const Value& value = graph_.value(outputs[i]);
    if (type != value.type) {
      cursor_.fail_at(
          at, fmt::format("%{} is {}, not {}", value.name, to_string(value.type), to_string(type)));
    }
  }
}

void GraphParser::parse_node() {
  const size_t at = cursor_.position();
  const std::vector<std::string> names = parse_output_names();
  const size_t op_at = cursor_.position();
  const std::string_view op_name = cursor_.word();
  const OpSchema* op = find_op(op_name);
  if (op == nullptr) cursor_.fail_at(op_at, fmt::format("there is no op '{}'", op_name));
  std::vector<ValueId> inputs = parse_inputs();
  Attrs attrs = parse_attrs(*op);
  const std::string source_name = cursor_.accept_word("from") ? cursor_.quoted() : "";
  std::vector<ValueId> outputs;
  try {
    // Several outputs get temporary names first, longer than any of their own.
    const std::string hint =
        names.size() == 1 ? names[0] : fmt::format("{}.", fmt::join(names, ","));
    outputs = graph_.add(*op, std::move(inputs), std::move(attrs), hint, source_name);
  } catch (const Error& error) {
    cursor_.fail_at(at, error.what());
  }
  if (outputs.size() != names.size()) {
    cursor_.fail_at(at, fmt::format("{} has {} outputs here, {} are named", op->name,
                                    outputs.size(), names.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph_.rename(outputs[i], names[i]);
    values_[names[i]] = outputs[i];
  }
  check_types(outputs);
}

}  // namespace

Graph parse(std::string_view text) {
  return GraphParser(text).parse();
}

}  // namespace kvern::ir
