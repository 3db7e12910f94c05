#include "compile/ir/op.h"

#include "base/check.h"

namespace kvern::ir {

Attrs Attrs::with(const std::vector<NamedField>& fields) const {
  if (empty()) {
    check_known_field(fields.empty(), fields.empty() ? NamedField{} : fields.front());
    return {};
  }
  return type_->make(fields);
}

void Attrs::check_type(bool same) {
  KVERN_CHECK(same, "attributes read as a struct that they are not");
}

}  // namespace kvern::ir
