// What an op is to the IR: its name, its attributes, and how the types of its outputs follow from
// its inputs. The op table lists every op once; nothing here knows a kernel or a model family.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "compile/ir/type.h"

namespace kvern::ir {

class Attrs;

struct OpSchema {
  const char* name;  // "rms_norm"
  int min_inputs;
  int max_inputs;
  // Types of the outputs. Throws Error(kInvalidModel) with what was wanted and got.
  std::vector<Type> (*infer)(std::span<const Type> inputs, const Attrs& attrs);
  // Default attributes, from which the parser starts.
  Attrs (*default_attrs)();
  bool has_state = false;  // reads or writes the KV cache: never folded, never merged
};

// The attributes of one node: any struct with fields(). Immutable and cheap to copy.
class Attrs {
 public:
  Attrs() = default;
  template <Described T>
  static Attrs of(T value) {
    Attrs attrs;
    attrs.type_ = &type_of<T>;
    attrs.value_ = std::make_shared<const T>(std::move(value));
    return attrs;
  }
  // The struct itself. KVERN_CHECKs that it is a T.
  template <Described T>
  const T& as() const {
    check_type(type_ == &type_of<T>);
    return *static_cast<const T*>(value_.get());
  }
  bool empty() const { return value_ == nullptr; }
  std::vector<NamedField> fields() const {
    return empty() ? std::vector<NamedField>{} : type_->get(value_.get());
  }
  // The same struct type with these fields set over its defaults.
  Attrs with(const std::vector<NamedField>& fields) const;
  bool same_struct(const Attrs& other) const { return type_ == other.type_; }
  friend bool operator==(const Attrs& a, const Attrs& b) {
    return a.type_ == b.type_ && a.fields() == b.fields();
  }

 private:
  struct TypeInfo {
    std::vector<NamedField> (*get)(const void*);
    Attrs (*make)(const std::vector<NamedField>&);
  };
  template <class T>
  static inline const TypeInfo type_of{
      [](const void* value) { return to_fields(*static_cast<const T*>(value)); },
      [](const std::vector<NamedField>& fields) { return Attrs::of(from_fields<T>(fields)); }};
  static void check_type(bool same);

  const TypeInfo* type_ = nullptr;
  std::shared_ptr<const void> value_;
};

// Every op, in the order of op_table.cpp.
std::span<const OpSchema* const> all_ops();
// nullptr when there is no op of that name.
const OpSchema* find_op(std::string_view name);

}  // namespace kvern::ir
