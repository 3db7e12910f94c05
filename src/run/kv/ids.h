// The strong ids of the runtime.
#pragma once

#include "base/strong_id.h"

namespace kvern::kv {

using PageId = StrongId<struct PageTag>;  // within the pool of one KV group
using SeqId = StrongId<struct SeqTag, int64_t>;

}  // namespace kvern::kv
