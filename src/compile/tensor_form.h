// A model in tensor form (ONNX) joins the others: the graph in token form, its slots and sizes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compile/import/import.h"
#include "compile/passes/token_form/token_form.h"

namespace kvern::compile {

struct TensorFormOptions {
  std::map<std::string, std::string> states;  // past=present, as the user declares them
  std::map<std::string, std::string> inputs;  // NAME=past|total|tokens|NUMBER
  bool per_token_dynamic_quant = false;
  int64_t max_context_length = 0;
  bool allow_unproven = false;                       // lengths at which no mask was evaluated
  std::function<void(uint64_t, uint64_t)> progress;  // nodes; as in TokenFormOptions
  std::vector<passes::TokenLayer>* layers_found = nullptr;  // as in TokenFormOptions
};

// What was found, and with which options.
struct Conversion {
  passes::TokenForm form;  // without its graph
  passes::TokenFormOptions options;
};

// Does nothing for a model that has a graph. Otherwise sets graph, slots and sizes, and returns
// what was found. Throws as to_token_form().
std::optional<Conversion> convert_tensor_form(import::ImportedModel& model,
                                              const TensorFormOptions& options);

}  // namespace kvern::compile
