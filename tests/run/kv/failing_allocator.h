// operator new of the test binary that links this, failing on demand.
#pragma once

namespace kvern::testing {

// Allocations of this thread until one fails, and every later one with it; -1: none does.
extern thread_local int allocations_left;

}  // namespace kvern::testing
