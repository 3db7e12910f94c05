// What `Plan` and `Engine` tell of a plan.
#pragma once

#include "kvern/plan.h"
#include "plan/reader.h"

namespace kvern {

PlanSummary summarise(const plan::PlanFile& file);

}  // namespace kvern
