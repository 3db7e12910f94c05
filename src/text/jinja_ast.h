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
  kUnpack,       // children: value; *value as an argument
  kCall,         // children: callee, positional…; named (name "**": a dict of them)
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
  std::vector<std::pair<Value, std::unique_ptr<Expression>>> named;  // name: a string
};
using ExpressionPtr = std::unique_ptr<Expression>;

// What `set` and `for` assign to: a name, an attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
};

enum class StatementKind {
  kText,       // text
  kPrint,      // value
  kIf,         // branches; else_body
  kFor,        // target, value, condition (or null), body, else_body
  kSet,        // target, value
  kSetBlock,   // target = rendered body, through value (filters, or null)
  kMacro,      // text: name; parameters; body; uses
  kCallBlock,  // value: a call; the rest makes its `caller`, as in kMacro
  kWith,       // parameters; body
  kScope,      // body: {% generation %} and {% filter f %} (value: the filter, its input null)
  kBreak,
  kContinue
};

// Names with a meaning of their own in a macro, when its body mentions them.
enum MacroUse : unsigned { kUsesCaller = 1, kUsesVarargs = 2, kUsesKwargs = 4 };

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // or null
};

struct Statement {
  StatementKind kind;
  int line;
  unsigned uses = 0;  // bits of MacroUse
  std::string text;
  Target target;
  ExpressionPtr value;
  ExpressionPtr condition;
  std::vector<Parameter> parameters;
  std::vector<Branch> branches;
  Body body;
  Body else_body;
};

struct Template {
  Body body;
};

}  // namespace kvern::text::jinja
