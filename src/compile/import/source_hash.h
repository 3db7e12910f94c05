// What a model's tensors are, in 16 digits.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compile/ir/recipe.h"

namespace kvern::import {

// Over names, types, shapes and bytes of `tensors` in their order; not over offsets, so that other
// metadata or padding leaves it alone. `files`: by WeightSource::file, extents checked before.
// progress(done_bytes, total_bytes) may be empty.
std::string hash_tensors(const std::vector<ir::WeightSource>& tensors,
                         std::span<const std::span<const std::byte>> files,
                         const std::function<void(uint64_t, uint64_t)>& progress);

}  // namespace kvern::import
