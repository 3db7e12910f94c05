// The type-erased entry of each kernel family; programs name families by string.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/fields.h"
#include "kernels/impl.h"

namespace kvern::kernels {

// Which implementations may be taken.
struct Choice {
  std::string preferred;    // name from the plan's tactics; empty = the table's order
  bool plain_only = false;  // the oracle: the last implementation of every table
};

struct Family {
  const char* name;  // "linear"
  std::unique_ptr<PreparedOp> (*prepare)(const std::vector<NamedField>& desc, const Choice& choice);
  // Every implementation with its verdict, best first: `kvern inspect --why`.
  std::vector<Candidate> (*candidates)(const std::vector<NamedField>& desc);
  // The Desc with its fields' names.
  std::string (*describe)(const std::vector<NamedField>& desc);
  // Throws Error(kInvalidPlan) naming what no implementation can do.
  void (*validate)(const std::vector<NamedField>& desc);
};

std::span<const Family> all_families();
// nullptr when there is none of that name.
const Family* find_family(std::string_view name);

// A family is described by a traits struct:
//   struct LinearFamily {
//     using Desc = LinearDesc; using Args = LinearArgs;
//     static constexpr const char* kName = "linear";
//     static std::span<const Impl<Desc, Args>> table();
//     static int64_t num_inputs(const Desc&); static int64_t num_outputs(const Desc&);
//     static void validate(const Desc&);                     // throws Error(kInvalidPlan)
//     static Args bind(const Desc&, const Call&);            // operands -> Args
//   };
template <class Traits>
Family make_family();

namespace family_internal {

template <class Traits>
class Prepared final : public PreparedOp {
 public:
  using Desc = typename Traits::Desc;
  using ImplT = Impl<Desc, typename Traits::Args>;
  Prepared(Desc desc, const ImplT& impl) : desc_(std::move(desc)), impl_(impl) {}
  void run(const Call& call) const override {
    KVERN_DCHECK(static_cast<int64_t>(call.inputs.size()) == num_inputs());
    impl_.run(desc_, Traits::bind(desc_, call));
  }
  const char* implementation() const override { return impl_.name; }
  const char* numerics() const override { return impl_.numerics; }
  int64_t num_inputs() const override { return Traits::num_inputs(desc_); }
  int64_t num_outputs() const override { return Traits::num_outputs(desc_); }

 private:
  Desc desc_;
  const ImplT& impl_;
};

template <class Traits>
std::string describe(const std::vector<NamedField>& fields) {
  return print_fields(to_fields(from_fields<typename Traits::Desc>(fields)));
}

template <class Traits>
void validate(const std::vector<NamedField>& fields) {
  Traits::validate(from_fields<typename Traits::Desc>(fields));
}

// Says what to do about a Desc that a plan holds and no build would have written.
[[noreturn]] void refuse_plan(const Error& problem);

template <class Traits>
typename Traits::Desc validated(const std::vector<NamedField>& fields) {
  try {
    auto desc = from_fields<typename Traits::Desc>(fields);
    Traits::validate(desc);
    return desc;
  } catch (const Error& problem) {
    refuse_plan(problem);
  }
}

template <class Traits>
std::unique_ptr<PreparedOp> prepare(const std::vector<NamedField>& fields, const Choice& choice) {
  auto desc = validated<Traits>(fields);
  const auto table = Traits::table();
  size_t chosen = table.size() - 1;
  if (!choice.plain_only) {
    for (size_t i = table.size(); i-- > 0;) {
      if (table[i].supports(desc).supported) chosen = i;
    }
    for (size_t i = 0; i < table.size(); ++i) {
      if (choice.preferred == table[i].name && table[i].supports(desc).supported) chosen = i;
    }
  }
  return std::make_unique<Prepared<Traits>>(std::move(desc), table[chosen]);
}

template <class Traits>
std::vector<Candidate> candidates(const std::vector<NamedField>& fields) {
  const auto desc = from_fields<typename Traits::Desc>(fields);
  std::vector<Candidate> out;
  for (const auto& impl : Traits::table()) {
    out.push_back({impl.name, impl.numerics, impl.supports(desc)});
  }
  return out;
}

}  // namespace family_internal

template <class Traits>
Family make_family() {
  return {Traits::kName, family_internal::prepare<Traits>, family_internal::candidates<Traits>,
          family_internal::describe<Traits>, family_internal::validate<Traits>};
}

}  // namespace kvern::kernels
