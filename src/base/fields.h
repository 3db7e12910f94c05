// Structs that describe themselves. A struct lists its members once,
//
//   struct RmsNormAttrs {
//     float eps = 1e-5f;
//     static constexpr auto fields() { return std::tuple{field(1, "eps", &RmsNormAttrs::eps)}; }
//   };
//
// and the text printer and parser, equality, hash and the binary form of plans follow from the
// list. Field numbers are part of the plan format: never change or reuse one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "kvern/error.h"

namespace kvern {

template <class T, class M>
struct Field {
  int number;
  std::string_view name;
  M T::*member;
};

template <class T, class M>
constexpr Field<T, M> field(int number, std::string_view name, M T::*member) {
  return {number, name, member};
}

template <class T>
concept Described = requires {
  T::fields();
};

// What a field can hold once its C++ type is forgotten. Enums travel as their integer value; in
// text they show their name where the enum has `const char* enum_name(E)`.
using FieldValue =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

struct NamedField {
  int number = 0;
  std::string name;
  FieldValue value;
  friend bool operator==(const NamedField&, const NamedField&) = default;
};

namespace fields_internal {

// 1e-05 for 1e-5f, not 9.999999747378752e-06: the shortest decimal that is this float again.
double shortest(float value);

template <class M>
FieldValue to_value(const M& member) {
  if constexpr (std::is_same_v<M, bool>)
    return member;
  else if constexpr (std::is_enum_v<M>)
    return static_cast<int64_t>(member);
  else if constexpr (std::is_integral_v<M>)
    return static_cast<int64_t>(member);
  else if constexpr (std::is_same_v<M, float>)
    return shortest(member);
  else if constexpr (std::is_floating_point_v<M>)
    return static_cast<double>(member);
  else
    return FieldValue(member);
}

[[noreturn]] void wrong_type(std::string_view name);
[[noreturn]] void out_of_range(std::string_view name, int64_t value);

template <class M>
void from_value(std::string_view name, const FieldValue& value, M& member) {
  if constexpr (std::is_same_v<M, bool>) {
    if (!std::holds_alternative<bool>(value)) wrong_type(name);
    member = std::get<bool>(value);
  } else if constexpr (std::is_enum_v<M> || std::is_integral_v<M>) {
    if (!std::holds_alternative<int64_t>(value)) wrong_type(name);
    const int64_t wide = std::get<int64_t>(value);
    member = static_cast<M>(wide);
    if (static_cast<int64_t>(member) != wide) out_of_range(name, wide);
  } else if constexpr (std::is_floating_point_v<M>) {
    if (std::holds_alternative<int64_t>(value))
      member = static_cast<M>(std::get<int64_t>(value));
    else if (std::holds_alternative<double>(value))
      member = static_cast<M>(std::get<double>(value));
    else
      wrong_type(name);
  } else {
    if (!std::holds_alternative<M>(value)) wrong_type(name);
    member = std::get<M>(value);
  }
}

}  // namespace fields_internal

template <Described T>
std::vector<NamedField> to_fields(const T& object) {
  std::vector<NamedField> out;
  std::apply(
      [&](const auto&... f) {
        (out.push_back(
             {f.number, std::string(f.name), fields_internal::to_value(object.*(f.member))}),
         ...);
      },
      T::fields());
  return out;
}

// Sets the fields given by number (or by name where number is 0); the others keep their defaults.
// Throws Error(kInvalidPlan) for a field the struct does not have or a value of the wrong type.
void check_known_field(bool known, const NamedField& given);

template <Described T>
T from_fields(const std::vector<NamedField>& given) {
  T object{};
  for (const NamedField& g : given) {
    bool known = false;
    std::apply(
        [&](const auto&... f) {
          ((g.number == f.number || (g.number == 0 && g.name == f.name)
                ? (fields_internal::from_value(f.name, g.value, object.*(f.member)), known = true)
                : false),
           ...);
        },
        T::fields());
    check_known_field(known, g);
  }
  return object;
}

// "{eps = 1e-05, heads = 9}": doubles in their shortest exact form, strings quoted, lists in [].
std::string print_fields(const std::vector<NamedField>& fields);

// The inverse of print_fields, numbers all 0. Throws Error(kInvalidModel) with the column.
std::vector<NamedField> parse_fields(std::string_view text);

}  // namespace kvern
