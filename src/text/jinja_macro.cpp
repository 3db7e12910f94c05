// Calls: of macros with their parameters, and of everything else that can be called.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_interpreter.h"

namespace kvern::text::jinja {

// A macro sees the names of the place where it is defined, not those of the place that calls it.
Value Interpreter::call_macro(const Macro& macro, const Arguments& given) {
  std::shared_ptr<Scope> defined_in = macro.scope.lock();
  if (defined_in == nullptr) {
    context_.fail(fmt::format("the macro '{}' is called outside of the block that defines it",
                              macro.statement->text));
  }
  const std::shared_ptr<Scope> calling = scope_;
  enter(std::move(defined_in));
  bind_parameters(*macro.statement, given);
  bind_extras(*macro.statement, given);
  Value text = captured(macro.statement->body, nullptr);
  scope_ = calling;
  return text;
}

void Interpreter::bind_parameters(const Statement& macro, const Arguments& given) {
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    context_.step_search(given.named.size(), parameter.name.size());
    const auto named = std::find_if(given.named.begin(), given.named.end(), [&](const auto& entry) {
      return *entry.first.string() == parameter.name;
    });
    const bool by_place = i < given.positional.size();
    if (by_place && named != given.named.end()) {
      context_.fail(fmt::format("macro '{}' was given '{}' twice", macro.text, parameter.name));
    }
    if (by_place) {
      set(parameter.name, given.positional[i]);
    } else if (named != given.named.end()) {
      set(parameter.name, named->second);
    } else {
      set(parameter.name,
          parameter.otherwise ? evaluate(*parameter.otherwise) : Value::missing(parameter.name));
    }
  }
}

// What the parameters leave: `caller`, `varargs` and `kwargs` where the body mentions them.
void Interpreter::bind_extras(const Statement& macro, const Arguments& given) {
  Entries kwargs;
  Value caller = Value::missing("caller");
  for (const auto& [name, value] : given.named) {
    context_.step_search(macro.parameters.size(), name.string()->size());
    const bool bound =
        std::any_of(macro.parameters.begin(), macro.parameters.end(),
                    [&](const Parameter& known) { return known.name == *name.string(); });
    if (bound) continue;
    if (*name.string() == "caller" && (macro.uses & kUsesCaller) != 0) {
      caller = value;
    } else if ((macro.uses & kUsesKwargs) != 0) {
      put(context_, kwargs, name, value);
    } else {
      context_.fail(fmt::format("macro '{}' has no parameter '{}'", macro.text,
                                name.string()->substr(0, 64)));
    }
  }
  const size_t count = macro.parameters.size();
  if (given.positional.size() > count && (macro.uses & kUsesVarargs) == 0) {
    context_.fail(fmt::format("macro '{}' takes {} arguments, {} were given", macro.text, count,
                              given.positional.size()));
  }
  const auto is_parameter = [&](std::string_view wanted) {
    return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                       [&](const Parameter& known) { return known.name == wanted; });
  };
  if ((macro.uses & kUsesCaller) != 0 && !is_parameter("caller") &&
      macro.kind == StatementKind::kMacro) {
    set("caller", std::move(caller));
  }
  if ((macro.uses & kUsesKwargs) != 0 && !is_parameter("kwargs")) {
    set("kwargs", Value::dict(context_, std::move(kwargs)));
  }
  if ((macro.uses & kUsesVarargs) != 0 && !is_parameter("varargs")) {
    const auto first =
        given.positional.begin() + static_cast<ptrdiff_t>(std::min(count, given.positional.size()));
    set("varargs", Value::tuple(context_, {first, given.positional.end()}));
  }
}

Value Interpreter::call_value(const Value& callee, const Arguments& given) {
  if (callee.function()) return call(context_, *callee.function()->builtin, Value(), given);
  if (callee.method()) {
    return call(context_, *callee.method()->builtin, *callee.method()->receiver, given);
  }
  if (callee.macro()) return call_macro(*callee.macro(), given);
  if (callee.cycler() && callee.cycler()->is_joiner) {
    const bool first = std::exchange(callee.cycler()->next, 1) == 0;
    return first ? Value::constant("") : callee.cycler()->items.list()->items[0];
  }
  if (callee.loop()) context_.unsupported("calling loop(), a recursive loop,");
  if (callee.undefined()) {
    context_.unsupported(fmt::format("calling '{}', which is undefined,", callee.undefined_name()));
  }
  context_.fail(fmt::format("a {} cannot be called", callee.type_name()));
}

Value Interpreter::call_expression(const Expression& expression) {
  const Value callee = evaluate(*expression.children[0]);
  const Arguments given = arguments(expression);
  context_.set_line(expression.line);
  return call_value(callee, given);
}

Arguments Interpreter::arguments(const Expression& expression) {
  Arguments out;
  // A list is all items; calls, filters and tests have their callee or input first.
  const size_t first =
      expression.kind == ExpressionKind::kList || expression.kind == ExpressionKind::kTuple ? 0 : 1;
  for (size_t i = first; i < expression.children.size(); ++i) {
    const Expression& child = *expression.children[i];
    if (child.kind != ExpressionKind::kUnpack) {
      out.positional.push_back(evaluate(child));
      continue;
    }
    const Value items = items_of(context_, evaluate(*child.children[0]));
    const std::vector<Value>& all = items.list()->items;
    context_.step(all.size() / 8);
    out.positional.insert(out.positional.end(), all.begin(), all.end());
  }
  for (const auto& [name, value] : expression.named) {
    Value given = evaluate(*value);
    if (*name.string() != "**") {
      out.named.emplace_back(name, std::move(given));
      continue;
    }
    if (!given.mapping()) context_.fail("'**' needs a dict");
    for (const auto& [key, item] : given.dict()->entries) {
      need_string(context_, key, "a name behind '**'");
      out.named.emplace_back(key, item);
    }
  }
  return out;
}

}  // namespace kvern::text::jinja
