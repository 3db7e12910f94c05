// What a report says of a build that was refused: the reason, and what was known by then.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile/import/import.h"
#include "compile/passes/token_form/token_form.h"
#include "kvern/error.h"

namespace kvern::compile {

struct KnownSoFar {
  std::optional<import::ImportedModel> model;  // once its files were read
  std::vector<passes::TokenLayer> layers;      // of tensor form, as far as the conversion came
};

// JSON: {"status": "refused" | "failed", "code", "reason", "model", …}.
std::string refusal_report(const std::string& model_path, const KnownSoFar& known,
                           const Error& error);

}  // namespace kvern::compile
