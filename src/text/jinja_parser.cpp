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
    if (name == "generation") return wrapper(line, "endgeneration", false);
    if (name == "filter") return wrapper(line, "endfilter", true);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) syntax_error(line, fmt::format("{{% {} %}} outside of a loop", name));
      Statement statement =
          make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
      block_end();
      return statement;
    }
    throw Error(Code::kUnsupported,
                fmt::format("chat template, line {}: the statement '{{% {} %}}' is not supported; "
                            "known: if, for, set, macro, filter, generation, raw, break, continue",
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

  Statement for_block(int line) {
    Statement statement = make(StatementKind::kFor);
    const bool parenthesis = in_.take_operator("(");
    do {
      statement.targets.push_back(in_.expect_name("a loop variable"));
    } while (in_.take_operator(","));
    if (parenthesis) in_.expect_operator(")");
    if (!in_.take_name("in")) in_.unexpected("'in'");
    statement.value = in_.or_expression();
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
    do {
      statement.targets.push_back(in_.expect_name("a variable"));
    } while (in_.take_operator(","));
    if (in_.take_operator(".")) {
      statement.attribute = in_.expect_name("an attribute");
      if (statement.targets.size() > 1) in_.unexpected("one target");
    }
    if (in_.take_operator("=")) {
      statement.value = in_.tuple();
      block_end();
      return statement;
    }
    if (statement.targets.size() > 1) in_.unexpected("'='");
    statement.kind = StatementKind::kSetBlock;
    if (in_.take_operator("|")) statement.value = in_.filter_chain(nullptr);
    block_end();
    statement.body = body();
    close("endset", line);
    return statement;
  }

  Statement macro_block(int line) {
    Statement statement = make(StatementKind::kMacro);
    statement.text = in_.expect_name("a macro's name");
    in_.expect_operator("(");
    while (!in_.at_operator(")")) {
      std::string name = in_.expect_name("a parameter");
      ExpressionPtr otherwise = in_.take_operator("=") ? in_.expression() : nullptr;
      statement.parameters.emplace_back(std::move(name), std::move(otherwise));
      if (!in_.take_operator(",")) break;
    }
    in_.expect_operator(")");
    block_end();
    const int outer_loops = std::exchange(loops_, 0);
    statement.body = body();
    loops_ = outer_loops;
    close("endmacro", line);
    return statement;
  }

  Statement wrapper(int line, std::string_view end, bool filtered) {
    Statement statement = make(StatementKind::kBlock);
    if (filtered) statement.value = in_.filter_chain(nullptr);
    block_end();
    statement.body = body();
    close(end, line);
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
