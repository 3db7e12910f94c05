// Every fault met while a node is evaluated names it, whoever threw it.
#pragma once

#include "compile/ir/tensor_graph.h"
#include "compile/ir/work_budget.h"

namespace kvern::eval {

// Rethrows the exception in flight. Our bugs and what is no std::exception (an interrupt) stay as
// they are; of foreign exceptions (a length that no vector has) the model is at fault.
[[noreturn]] void rethrow_naming(const ir::TensorNode& node);

template <class Fn>
auto run_named(const ir::TensorNode& node, Fn&& fn) {
  ir::check_stop();
  try {
    return fn();
  } catch (...) {
    rethrow_naming(node);
  }
}

}  // namespace kvern::eval
