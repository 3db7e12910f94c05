#include "text/jinja_interpreter.h"

#include <fmt/format.h>

namespace kvern::text::jinja {

Interpreter::Interpreter(Context& context, const Globals& globals)
    : context_(context), out_charge_(context, 0) {
  enter(nullptr);
  for (const auto& [name, value] : globals) set(name, value);
  enter();  // what the template itself sets
}

std::string Interpreter::render(const Template& source) {
  run(source.body);
  return std::move(out_);
}

void Interpreter::enter(std::shared_ptr<Scope> outer) {
  auto scope = std::make_shared<Scope>();
  scope->outer = std::move(outer);
  scope_ = std::move(scope);
}

void Interpreter::print(std::string_view text) {
  context_.step(text.size() / 64);
  if (out_.size() + text.size() > static_cast<size_t>(context_.max_string_bytes())) {
    context_.fail("the output grows beyond the limit");
  }
  out_charge_.add(text.size());
  out_ += text;
}

void Interpreter::set(std::string_view name, Value value) {
  context_.step_search(scope_->names.size(), name.size());
  for (auto& [existing, slot] : scope_->names) {
    if (existing != name) continue;
    slot = std::move(value);
    return;
  }
  scope_->names.emplace_back(name, std::move(value));
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
      assign(statement.target, evaluate(*statement.value));
      break;
    case StatementKind::kSetBlock:
      assign(statement.target, captured(statement.body, statement.value.get()));
      break;
    case StatementKind::kMacro:
      set(statement.text, Value(Macro{&statement, scope_}));
      break;
    case StatementKind::kCallBlock: {
      const Value callee = evaluate(*statement.value->children[0]);
      Arguments given = arguments(*statement.value);
      given.named.emplace_back(Value::constant("caller"), Value(Macro{&statement, scope_}));
      print(to_string(context_, call_value(callee, given)));
      break;
    }
    case StatementKind::kWith:
      return run_with(statement);
    case StatementKind::kScope:
      print(to_string(context_, captured(statement.body, statement.value.get())));
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

Interpreter::Flow Interpreter::run_with(const Statement& statement) {
  std::vector<Value> values;  // none sees another's name
  for (const Parameter& parameter : statement.parameters) {
    values.push_back(evaluate(*parameter.otherwise));
  }
  enter();
  for (size_t i = 0; i < values.size(); ++i) {
    set(statement.parameters[i].name, std::move(values[i]));
  }
  const Flow flow = run(statement.body);
  leave();
  return flow;
}

Value Interpreter::loop_items(const Statement& statement) {
  Value items = items_of(context_, evaluate(*statement.value));
  if (!statement.condition) return items;
  std::vector<Value> kept;
  for (const Value& item : items.list()->items) {
    enter();
    assign(statement.target, item);
    if (evaluate(*statement.condition).truthy()) kept.push_back(item);
    leave();
  }
  return Value::list(context_, std::move(kept));
}

Interpreter::Flow Interpreter::run_for(const Statement& statement) {
  const Value items = loop_items(statement);
  const std::vector<Value>& all = items.list()->items;
  if (all.empty()) return run(statement.else_body);
  const auto loop = std::make_shared<Loop>();
  loop->items = items;
  for (size_t i = 0; i < all.size(); ++i) {
    context_.step();
    loop->index0 = static_cast<int64_t>(i);
    enter();
    set("loop", Value(loop));
    assign(statement.target, all[i]);
    const Flow flow = run(statement.body);
    leave();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) return assign_attribute(target, value);
  if (target.parts.empty()) return set(target.name, value);
  const Value parts = items_of(context_, value);
  const size_t count = parts.list()->items.size();
  if (count != target.parts.size()) {
    context_.fail(fmt::format("{} values cannot go into {} names", count, target.parts.size()));
  }
  for (size_t i = 0; i < count; ++i) assign(target.parts[i], parts.list()->items[i]);
}

void Interpreter::assign_attribute(const Target& target, const Value& value) {
  const Value object = name(target.name);
  if (!object.dict() || !object.dict()->is_namespace) {
    context_.fail(
        fmt::format("'{}' is no namespace, so its attributes cannot be set", target.name));
  }
  if (target.attribute[0] == '_') {
    context_.fail("attributes of a namespace cannot begin with '_'");
  }
  if (value.holds_mutable()) context_.unsupported("a namespace inside a namespace");
  Dict& space = *object.dict();
  // The depth that containers of this namespace were made with counts on max_depth below it.
  if (value.depth() + 1 > context_.max_depth()) context_.fail("values are nested too deeply");
  context_.step_search(space.entries.size(), target.attribute.size());
  for (auto& [key, slot] : space.entries) {
    if (!key.string() || *key.string() != target.attribute) continue;
    slot = value;
    return;
  }
  space.charge.add(2 * sizeof(space.entries[0]));
  space.entries.emplace_back(Value::text(context_, target.attribute), value);
}

Value Interpreter::captured(const Body& body, const Expression* filters) {
  std::string outer = std::exchange(out_, {});
  Charge outer_charge = std::exchange(out_charge_, Charge(context_, 0));
  enter();
  run(body);
  leave();
  std::string inner = std::exchange(out_, std::move(outer));
  std::swap(out_charge_, outer_charge);
  outer_charge = Charge();
  Value text = Value::text(context_, std::move(inner));
  return filters == nullptr ? text : filtered(*filters, std::move(text));
}

Value Interpreter::filtered(const Expression& filters, Value input) {
  const Expression* before = filters.children[0].get();
  if (before != nullptr) input = filtered(*before, std::move(input));
  return call(context_, known_builtin(filters), input, arguments(filters));
}

}  // namespace kvern::text::jinja
