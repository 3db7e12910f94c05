// From a plan and options to the parts that an engine runs on.
#pragma once

#include <memory>

#include "run/engine/engine.h"

namespace kvern::engine {

EngineParts load_parts(std::shared_ptr<const plan::PlanFile> file, const EngineOptions& options);

}  // namespace kvern::engine
