// Walks a template's tree. One object renders once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_builtin.h"
#include "text/jinja_context.h"

namespace kvern::text::jinja {

// Names of one block, and the block around it. A name is a view of the tree's or of the globals'.
struct Scope {
  std::shared_ptr<Scope> outer;
  std::vector<std::pair<std::string_view, Value>> names;
};

class Interpreter {
 public:
  using Globals = std::vector<std::pair<std::string, Value>>;  // live as long as the interpreter
  Interpreter(Context& context, const Globals& globals);

  std::string render(const Template& source);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements, in jinja_interpreter.cpp.
  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_for(const Statement& statement);
  Flow run_with(const Statement& statement);
  Value loop_items(const Statement& statement);
  void assign(const Target& target, const Value& value);
  void assign_attribute(const Target& target, const Value& value);
  void set(std::string_view name, Value value);
  // What `body` prints, through the filters of `filters` (null: none).
  Value captured(const Body& body, const Expression* filters);
  Value filtered(const Expression& filters, Value input);
  void print(std::string_view text);
  void enter() { enter(scope_); }
  void enter(std::shared_ptr<Scope> outer);
  void leave() { scope_ = scope_->outer; }

  // Macros, in jinja_macro.cpp.
  Value call_macro(const Macro& macro, const Arguments& given);
  void bind_parameters(const Statement& macro, const Arguments& given);
  void bind_extras(const Statement& macro, const Arguments& given);
  Value call_value(const Value& callee, const Arguments& given);

  // Expressions, in jinja_evaluate.cpp.
  Value evaluate(const Expression& expression);
  Value dict(const Expression& expression);
  Value name(const std::string& wanted) const;
  const Builtin& known_builtin(const Expression& expression) const;
  Value unary(const Expression& expression);
  Value binary(const Expression& expression);
  Value comparison(const Expression& expression);
  bool compare(const std::string& op, const Value& left, const Value& right);
  Value sliced(const Expression& expression);
  Value call_expression(const Expression& expression);
  Arguments arguments(const Expression& expression);

  Context& context_;
  std::shared_ptr<Scope> scope_;  // the innermost
  std::string out_;
  Charge out_charge_;
};

}  // namespace kvern::text::jinja
