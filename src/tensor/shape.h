// A list of constant dims, outermost first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvern {

using Shape = std::vector<int64_t>;

int64_t num_elements(const Shape& shape);
// "[49152, 576]"
std::string to_string(const Shape& shape);

}  // namespace kvern
