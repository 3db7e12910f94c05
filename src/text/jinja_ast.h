// A template as a tree. Plain data: the parser makes it, the interpreter walks it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace kvern::text::jinja {

struct Builtin;

enum class ExpressionKind {
  kConstant,
  kName,         // text
  kList,         // children
  kTuple,        // children
  kDict,         // children: key, value, key, value, …
  kUnary,        // text: "-", "+", "not"
  kBinary,       // text: operator; children: left, right
  kCompare,      // children; operators[i] stands between children i and i + 1
  kConditional,  // children: condition, then, and maybe else
  kAttribute,    // children: object; text: name
  kSubscript,    // children: object, key
  kSlice,        // children: object, start, stop, step (null where absent)
  kCall,         // children: callee, positional…; named
  kFilter,       // children: input, positional…; named; builtin
  kTest          // as kFilter
};

struct Expression {
  ExpressionKind kind;
  int line;
  int depth = 1;  // of the tree: bounds every recursion over it
  std::string text;
  Value constant;
  const Builtin* builtin =
      nullptr;  // null: unknown, refused only where it is reached, as Jinja does
  std::vector<std::string> operators;
  std::vector<std::unique_ptr<Expression>> children;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> named;
};
using ExpressionPtr = std::unique_ptr<Expression>;

enum class StatementKind {
  kText,      // text
  kPrint,     // value
  kIf,        // branches; else_body
  kFor,       // targets, value, condition (or null), body, else_body
  kSet,       // targets, value; attribute = of a namespace (targets[0]), or empty
  kSetBlock,  // targets[0] = rendered body
  kMacro,     // text: name; parameters; body
  kBlock,     // body: {% generation %} and {% filter f %} (value: the filter, its input null)
  kBreak,
  kContinue
};

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Statement {
  StatementKind kind;
  int line;
  std::string text;
  std::string attribute;
  std::vector<std::string> targets;
  ExpressionPtr value;
  ExpressionPtr condition;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // default, or null
  std::vector<Branch> branches;
  Body body;
  Body else_body;
};

struct Template {
  Body body;
};

}  // namespace kvern::text::jinja
