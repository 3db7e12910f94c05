// Walks a template's tree. One object renders once.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_builtin.h"
#include "text/jinja_context.h"

namespace kvern::text::jinja {

class Interpreter {
 public:
  Interpreter(Context& context, std::vector<std::pair<std::string, Value>> globals)
      : context_(context) {
    scopes_.push_back(std::move(globals));
    scopes_.emplace_back();  // what the template itself sets
  }

  std::string render(const Template& source);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using Scope = std::vector<std::pair<std::string, Value>>;

  // Statements, in jinja_interpreter.cpp.
  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_for(const Statement& statement);
  void run_set(const Statement& statement);
  void unpack(const std::vector<std::string>& targets, const Value& value);
  void set(const std::string& name, Value value);
  // What `body` prints, through the filters of `filters` (null: none).
  std::string captured(const Body& body, const Expression* filters);
  Value filtered(const Expression& filters, Value input);
  void print(std::string_view text);
  Value call_macro(const Statement& macro, const Arguments& arguments);

  // Expressions, in jinja_evaluate.cpp.
  Value evaluate(const Expression& expression);
  Value dict(const Expression& expression);
  Value name(const std::string& wanted) const;
  const Builtin& known_builtin(const Expression& expression) const;
  Value unary(const Expression& expression);
  Value binary(const Expression& expression);
  Value comparison(const Expression& expression);
  bool compare(const std::string& op, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& item);
  Value slice(const Expression& expression);
  Value call_expression(const Expression& expression);
  Arguments arguments(const Expression& expression);

  Context& context_;
  std::vector<Scope> scopes_;  // innermost last
  std::string out_;
};

}  // namespace kvern::text::jinja
