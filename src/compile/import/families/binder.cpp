#include "compile/import/families/binder.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvern/error.h"

namespace kvern::import {

void Binder::want(bool bound, const std::string& theirs) {
  if (!bound) missing_.push_back(theirs);
}

void Binder::refuse_missing() const {
  if (missing_.empty()) return;
  const size_t named = std::min<size_t>(missing_.size(), 5);
  throw Error(
      Code::kInvalidModel,
      fmt::format("{}: {} tensor{} missing: {}{}; fetch or convert the model again", who_,
                  missing_.size(), missing_.size() == 1 ? " is" : "s are",
                  fmt::join(missing_.begin(), missing_.begin() + static_cast<long>(named), ", "),
                  named < missing_.size() ? ", ..." : ""));
}

}  // namespace kvern::import
