// generation_config.json: where generation stops, and what the model's makers sample with.
#pragma once

#include <string_view>

#include "compile/import/import.h"

namespace kvern::import::hf {

// Adds the stop ids and sets the defaults of `model`. Fields that change answers and that Kvern
// does not follow become warnings: they are proposals of the file, not part of the model.
void read_generation(std::string_view text, ImportedModel& model);

// Appends ids that are not there yet; each must be one of the model's.
void add_stop_ids(const std::vector<int64_t>& ids, const std::string& where, ImportedModel& model);

}  // namespace kvern::import::hf
