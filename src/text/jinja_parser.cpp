#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <utility>

#include "kvern/error.h"

namespace kvern::text::jinja {
namespace {

class Parser {
 public:
  Parser(std::string_view source, int max_depth) : in_(tokenize(source), max_depth) {}

  Template run() {
    Template out;
    out.body = body();
    if (in_.peek().kind != TokenKind::kEnd) {
      syntax_error(in_.peek().line, fmt::format("{{% {} %}} closes nothing", in_.peek(1).text));
    }
    return out;
  }

 private:
  // Statements up to a block that closes or continues another (left in place), or to the end.
  Body body() {
    const ExpressionParser::Nesting nesting(in_);
    Body out;
    while (in_.peek().kind != TokenKind::kEnd) {
      const Token& token = in_.peek();
      if (token.kind == TokenKind::kText) {
        Statement text = make(StatementKind::kText);
        text.text = in_.take().text;
        out.push_back(std::move(text));
      } else if (token.kind == TokenKind::kPrintBegin) {
        Statement print = make(StatementKind::kPrint);
        in_.take();
        print.value = in_.tuple();
        in_.expect(TokenKind::kPrintEnd, "}}");
        out.push_back(std::move(print));
      } else {
        const std::string& name = in_.peek(1).text;
        if (name.starts_with("end") || name == "else" || name == "elif") return out;
        in_.take();
        out.push_back(block());
      }
    }
    return out;
  }

  Statement make(StatementKind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = in_.peek().line;
    return statement;
  }

  void block_end() { in_.expect(TokenKind::kBlockEnd, "%}"); }

  // `{% name %}`, which must come next.
  void close(std::string_view name, int opened_at) {
    if (in_.peek().kind != TokenKind::kBlockBegin || in_.peek(1).text != name) {
      syntax_error(opened_at, fmt::format("the block opened here has no {{% {} %}}", name));
    }
    in_.take();
    in_.take();
    block_end();
  }

  bool next_block_is(std::string_view name) const {
    return in_.peek().kind == TokenKind::kBlockBegin && in_.peek(1).kind == TokenKind::kName &&
           in_.peek(1).text == name;
  }

  Statement block() {
    const int line = in_.peek().line;
    const std::string name = in_.expect_name("a statement");
    if (name == "if") return if_block(line);
    if (name == "for") return for_block(line);
    if (name == "set") return set_block(line);
    if (name == "macro") return macro_block(line);
    if (name == "call") return call_block(line);
    if (name == "with") return with_block(line);
    if (name == "generation") return generation_block(line);
    if (name == "filter") return filter_block(line);
    if (name == "print") return print_statement();
    if (name == "break" || name == "continue") {
      if (loops_ == 0) syntax_error(line, fmt::format("{{% {} %}} outside of a loop", name));
      Statement statement =
          make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
      block_end();
      return statement;
    }
    throw Error(
        Code::kUnsupported,
        fmt::format("chat template, line {}: the statement '{{% {} %}}' is not supported; "
                    "known: if, for, set, with, macro, call, filter, generation, raw, print, "
                    "break, continue",
                    line, name));
  }

  Statement if_block(int line) {
    Statement statement = make(StatementKind::kIf);
    do {
      Branch branch;
      branch.condition = in_.tuple();
      block_end();
      branch.body = body();
      statement.branches.push_back(std::move(branch));
    } while (next_block_is("elif") && (in_.take(), in_.take(), true));
    statement.else_body = else_body();
    close("endif", line);
    return statement;
  }

  Body else_body() {
    if (!next_block_is("else")) return {};
    in_.take();
    in_.take();
    block_end();
    return body();
  }

  // One target, or several with commas between them: `a`, `a, (b, c)`.
  Target target() {
    const ExpressionParser::Nesting nesting(in_);
    Target first = simple_target();
    if (!in_.at_operator(",")) return first;
    Target several;
    several.parts.push_back(std::move(first));
    while (in_.take_operator(",") &&
           (in_.peek().kind == TokenKind::kName || in_.at_operator("(")) && !in_.at_name("in")) {
      several.parts.push_back(simple_target());
    }
    return several;
  }

  Target simple_target() {
    if (in_.take_operator("(")) {
      Target inner = target();
      in_.expect_operator(")");
      return inner;
    }
    Target out;
    out.name = in_.expect_name("a variable");
    if (in_.take_operator(".")) out.attribute = in_.expect_name("an attribute");
    return out;
  }

  Statement for_block(int line) {
    Statement statement = make(StatementKind::kFor);
    statement.target = target();
    if (!in_.take_name("in")) in_.unexpected("'in'");
    statement.value = in_.plain_tuple();
    if (in_.take_name("if")) statement.condition = in_.expression();
    if (in_.at_name("recursive")) {
      throw Error(Code::kUnsupported,
                  fmt::format("chat template, line {}: recursive loops are not supported", line));
    }
    block_end();
    ++loops_;
    statement.body = body();
    --loops_;
    statement.else_body = else_body();
    close("endfor", line);
    return statement;
  }

  Statement set_block(int line) {
    Statement statement = make(StatementKind::kSet);
    statement.target = target();
    if (in_.take_operator("=")) {
      statement.value = in_.tuple();
      block_end();
      return statement;
    }
    if (!statement.target.parts.empty()) in_.unexpected("'='");
    statement.kind = StatementKind::kSetBlock;
    if (in_.take_operator("|")) statement.value = in_.filter_chain(nullptr);
    block_end();
    statement.body = body_outside_loops();
    close("endset", line);
    return statement;
  }

  Body body_outside_loops() {
    const int outer_loops = std::exchange(loops_, 0);
    Body out = body();
    loops_ = outer_loops;
    return out;
  }

  void parameters(Statement& statement) {
    in_.expect_operator("(");
    while (!in_.at_operator(")")) {
      Parameter parameter;
      parameter.name = in_.expect_name("a parameter");
      if (in_.take_operator("=")) parameter.otherwise = in_.expression();
      statement.parameters.push_back(std::move(parameter));
      if (!in_.take_operator(",")) break;
    }
    in_.expect_operator(")");
  }

  void macro_body(Statement& statement) {
    const unsigned outer = in_.take_uses();
    statement.body = body_outside_loops();
    statement.uses = in_.take_uses();
    in_.add_uses(outer | statement.uses);
  }

  Statement macro_block(int line) {
    Statement statement = make(StatementKind::kMacro);
    statement.text = in_.expect_name("a macro's name");
    parameters(statement);
    block_end();
    macro_body(statement);
    close("endmacro", line);
    return statement;
  }

  Statement call_block(int line) {
    Statement statement = make(StatementKind::kCallBlock);
    statement.text = "caller";
    if (in_.at_operator("(")) parameters(statement);
    statement.value = in_.expression();
    if (statement.value->kind != ExpressionKind::kCall) in_.unexpected("a call of a macro");
    block_end();
    macro_body(statement);
    close("endcall", line);
    return statement;
  }

  Statement with_block(int line) {
    Statement statement = make(StatementKind::kWith);
    while (in_.peek().kind != TokenKind::kBlockEnd) {
      Parameter parameter;
      parameter.name = in_.expect_name("a variable");
      in_.expect_operator("=");
      parameter.otherwise = in_.expression();
      statement.parameters.push_back(std::move(parameter));
      if (!in_.take_operator(",")) break;
    }
    block_end();
    statement.body = body();
    close("endwith", line);
    return statement;
  }

  Statement generation_block(int line) {
    Statement statement = make(StatementKind::kScope);
    block_end();
    statement.body = body_outside_loops();
    close("endgeneration", line);
    return statement;
  }

  Statement filter_block(int line) {
    Statement statement = make(StatementKind::kScope);
    statement.value = in_.filter_chain(nullptr);
    block_end();
    statement.body = body_outside_loops();
    close("endfilter", line);
    return statement;
  }

  Statement print_statement() {
    Statement statement = make(StatementKind::kPrint);
    statement.value = in_.expression();
    block_end();
    return statement;
  }

  ExpressionParser in_;
  int loops_ = 0;
};

}  // namespace

Template parse(std::string_view source, int max_depth) {
  return Parser(source, max_depth).run();
}

}  // namespace kvern::text::jinja
