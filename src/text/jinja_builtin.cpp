#include "text/jinja_builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace kvern::text::jinja {
namespace {

const Builtin* find(std::initializer_list<std::span<const Builtin>> tables, std::string_view name) {
  for (const std::span<const Builtin> table : tables) {
    for (const Builtin& builtin : table) {
      if (builtin.name == name) return &builtin;
    }
  }
  return nullptr;
}

struct Parameter {
  std::string_view name;
  bool required;
};

std::vector<Parameter> parse_parameters(std::string_view text) {
  std::vector<Parameter> out;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    std::string_view name = text.substr(0, space);
    const bool required = name.ends_with('!');
    if (required) name.remove_suffix(1);
    out.push_back({name, required});
    text.remove_prefix(space == text.npos ? text.size() : space + 1);
  }
  return out;
}

}  // namespace

const Value& BoundArguments::operator[](size_t i) const {
  static const Value kMissing;
  return i < values.size() ? values[i] : kMissing;
}

int64_t BoundArguments::integer_or(Context& context, size_t i, int64_t otherwise) const {
  if (!given(i) || values[i].none()) return otherwise;
  if (values[i].whole()) return values[i].as_integer();
  context.fail(
      fmt::format("argument {} must be an integer, not a {}", i + 1, values[i].type_name()));
}

std::string BoundArguments::string_or(Context& context, size_t i,
                                      std::string_view otherwise) const {
  return given(i) && !values[i].none() ? to_string(context, values[i]) : std::string(otherwise);
}

Value call(Context& context, const Builtin& builtin, const Value& input,
           const Arguments& arguments) {
  BoundArguments bound{{}, arguments};
  if (builtin.parameters == "*") return builtin.run(context, input, bound);
  const std::vector<Parameter> parameters = parse_parameters(builtin.parameters);
  if (arguments.positional.size() > parameters.size()) {
    context.fail(fmt::format("'{}' takes {} arguments, {} were given", builtin.name,
                             parameters.size(), arguments.positional.size()));
  }
  bound.values = arguments.positional;
  bound.values.resize(parameters.size());
  std::vector<bool> present(parameters.size());
  std::fill_n(present.begin(), arguments.positional.size(), true);
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& known) {
      return known.name == *name.string();
    });
    const auto place = static_cast<size_t>(found - parameters.begin());
    if (found == parameters.end() || present[place]) {
      context.unsupported(
          fmt::format("the argument '{}' of '{}'", name.string()->substr(0, 64), builtin.name));
    }
    bound.values[place] = value;
    present[place] = true;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].required || present[i]) continue;
    context.fail(fmt::format("'{}' needs the argument '{}'", builtin.name, parameters[i].name));
  }
  return builtin.run(context, input, bound);
}

const Builtin* find_filter(std::string_view name) {
  return find(
      {text_filters(), number_filters(), sequence_filters(), order_filters(), choice_filters()},
      name);
}

const Builtin* find_function(std::string_view name) {
  return find({functions()}, name);
}

const Builtin* find_method(const Value& receiver, std::string_view name) {
  if (receiver.string()) {
    return find(
        {case_methods(), split_methods(), string_methods(), search_methods(), format_methods()},
        name);
  }
  if (receiver.list()) return receiver.generator() ? nullptr : find({list_methods()}, name);
  if (receiver.mapping()) return find({dict_methods()}, name);
  if (receiver.loop()) return find({loop_methods()}, name);
  if (receiver.cycler()) return find({cycler_methods()}, name);
  return nullptr;
}

const std::string& need_string(Context& context, const Value& value, std::string_view who) {
  if (value.string()) return *value.string();
  context.fail(fmt::format("{} needs a string, not {}", who, value.description()));
}

}  // namespace kvern::text::jinja
