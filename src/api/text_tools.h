// Engine::TextTools over a plan's TextModel and the engine's tokenizer.
#pragma once

#include <memory>

#include "kvern/generate.h"
#include "plan/reader.h"
#include "text/tokenizer.h"

namespace kvern {

// `tokenizer` is null when the plan has none.
std::unique_ptr<Engine::TextTools> make_text_tools(
    std::shared_ptr<const plan::PlanFile> file, std::shared_ptr<const text::Tokenizer> tokenizer);

}  // namespace kvern
