#include "text/jinja_interpreter.h"

#include <fmt/format.h>

namespace kvern::text::jinja {
namespace {

constexpr size_t kTemplateScope = 1;

}  // namespace

std::string Interpreter::render(const Template& source) {
  run(source.body);
  return std::move(out_);
}

void Interpreter::print(std::string_view text) {
  context_.charge(text.size());
  if (out_.size() + text.size() > static_cast<size_t>(context_.max_string_bytes())) {
    context_.fail("the output grows beyond the limit");
  }
  out_ += text;
}

void Interpreter::set(const std::string& name, Value value) {
  context_.step_search(scopes_.back().size(), name.size());
  for (auto& [existing, slot] : scopes_.back()) {
    if (existing != name) continue;
    slot = std::move(value);
    return;
  }
  scopes_.back().emplace_back(name, std::move(value));
}

Interpreter::Flow Interpreter::run(const Body& body) {
  const Context::Level level(context_);
  for (const Statement& statement : body) {
    const Flow flow = run(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  context_.step();
  context_.set_line(statement.line);
  switch (statement.kind) {
    case StatementKind::kText:
      print(statement.text);
      break;
    case StatementKind::kPrint:
      print(to_string(context_, evaluate(*statement.value)));
      break;
    case StatementKind::kIf:
      return run_if(statement);
    case StatementKind::kFor:
      return run_for(statement);
    case StatementKind::kSet:
      run_set(statement);
      break;
    case StatementKind::kSetBlock:
      set(statement.targets[0], Value(captured(statement.body, statement.value.get())));
      break;
    case StatementKind::kMacro:
      set(statement.text, Value(Macro{&statement}));
      break;
    case StatementKind::kBlock:
      if (!statement.value) return run(statement.body);
      print(captured(statement.body, statement.value.get()));
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (evaluate(*branch.condition).truthy()) return run(branch.body);
  }
  return run(statement.else_body);
}

void Interpreter::unpack(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) return set(targets[0], value);
  const std::vector<Value> parts = items_of(context_, value);
  if (parts.size() != targets.size()) {
    context_.fail(fmt::format("{} values cannot go into {} names", parts.size(), targets.size()));
  }
  for (size_t i = 0; i < targets.size(); ++i) set(targets[i], parts[i]);
}

Interpreter::Flow Interpreter::run_for(const Statement& statement) {
  std::vector<Value> items = items_of(context_, evaluate(*statement.value));
  if (statement.condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      scopes_.emplace_back();
      unpack(statement.targets, item);
      const bool keep = evaluate(*statement.condition).truthy();
      scopes_.pop_back();
      if (keep) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) return run(statement.else_body);
  const auto count = static_cast<int64_t>(items.size());
  const auto item_or_undefined = [&](int64_t i, const char* name) {
    return i >= 0 && i < count ? items[i] : Value(Undefined{name});
  };
  for (int64_t i = 0; i < count; ++i) {
    scopes_.emplace_back();
    unpack(statement.targets, items[i]);
    set("loop", Value::dict(context_, {{"index", Value(i + 1)},
                                       {"index0", Value(i)},
                                       {"first", Value(i == 0)},
                                       {"last", Value(i + 1 == count)},
                                       {"length", Value(count)},
                                       {"revindex", Value(count - i)},
                                       {"revindex0", Value(count - i - 1)},
                                       {"previtem", item_or_undefined(i - 1, "loop.previtem")},
                                       {"nextitem", item_or_undefined(i + 1, "loop.nextitem")}}));
    const Flow flow = run(statement.body);
    scopes_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Interpreter::run_set(const Statement& statement) {
  Value value = evaluate(*statement.value);
  if (statement.attribute.empty()) return unpack(statement.targets, value);
  const Value object = name(statement.targets[0]);
  if (!object.dict() || !object.dict()->is_namespace) {
    context_.fail(
        fmt::format("'{}' is no namespace, so its attributes cannot be set", statement.targets[0]));
  }
  if (value.holds_namespace()) context_.unsupported("a namespace inside a namespace");
  Dict& space = *object.dict();
  // The depth that containers of this namespace were made with counts on max_depth below it.
  if (value.depth() + 1 > context_.max_depth()) context_.fail("values are nested too deeply");
  context_.step_search(space.entries.size(), statement.attribute.size());
  for (auto& [key, slot] : space.entries) {
    if (key != statement.attribute) continue;
    slot = std::move(value);
    return;
  }
  context_.charge(sizeof(space.entries[0]) + statement.attribute.size());
  space.entries.emplace_back(statement.attribute, std::move(value));
}

std::string Interpreter::captured(const Body& body, const Expression* filters) {
  std::string outer = std::exchange(out_, {});
  scopes_.emplace_back();
  run(body);
  scopes_.pop_back();
  std::string inner = std::exchange(out_, std::move(outer));
  if (filters == nullptr) return inner;
  return to_string(context_, filtered(*filters, Value(std::move(inner))));
}

Value Interpreter::filtered(const Expression& filters, Value input) {
  const Expression* before = filters.children[0].get();
  if (before != nullptr) input = filtered(*before, std::move(input));
  return call(context_, known_builtin(filters), input, arguments(filters));
}

Value Interpreter::call_macro(const Statement& macro, const Arguments& given) {
  if (given.positional.size() > macro.parameters.size()) {
    context_.fail(fmt::format("macro '{}' takes {} arguments, {} were given", macro.text,
                              macro.parameters.size(), given.positional.size()));
  }
  // A macro sees the template's own names, not those of the loop that calls it.
  std::vector<Scope> outer;
  for (size_t i = kTemplateScope + 1; i < scopes_.size(); ++i) {
    outer.push_back(std::move(scopes_[i]));
  }
  scopes_.resize(kTemplateScope + 1);
  scopes_.emplace_back();
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    context_.step_search(given.named.size(), name.size());
    Value value(Undefined{name});
    if (i < given.positional.size()) {
      value = given.positional[i];
    } else if (otherwise) {
      value = evaluate(*otherwise);
    }
    for (const auto& [key, named] : given.named) {
      if (key == name) value = named;
    }
    set(name, std::move(value));
  }
  std::string text = captured(macro.body, nullptr);
  scopes_.resize(kTemplateScope + 1);
  for (Scope& scope : outer) scopes_.push_back(std::move(scope));
  return Value(std::move(text));
}

}  // namespace kvern::text::jinja
