// Binding a family's names, with one message for all tensors that a file lacks.
#pragma once

#include <string>
#include <vector>

#include "compile/import/families/weight_set.h"

namespace kvern::import {

class Binder {
 public:
  // `who` opens the message: "hf: model 'x'".
  Binder(WeightSet& weights, std::string who) : weights_(weights), who_(std::move(who)) {}

  // `bound`: what one of WeightSet's binds said of the file's tensor `theirs`.
  void want(bool bound, const std::string& theirs);
  // As it is; both names end in .weight or .bias.
  void plain(const std::string& ours, const std::string& theirs) {
    want(weights_.bind(ours, theirs), theirs);
  }
  WeightSet& weights() { return weights_; }

  // Throws Error(kInvalidModel) naming what is missing.
  void refuse_missing() const;

 private:
  WeightSet& weights_;
  std::string who_;
  std::vector<std::string> missing_;
};

}  // namespace kvern::import
