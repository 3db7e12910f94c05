// Kept contexts between steps: their pages out to a file's bytes and in again. Used by the engine
// thread.
#pragma once

#include <vector>

#include "run/engine/saved_context.h"
#include "run/engine/step_loop.h"

namespace kvern::engine {

struct ExportedContext {
  int64_t computed = 0;          // of the context's tokens: in `bytes`
  std::vector<std::byte> bytes;  // the pages of saved_context.h, by KV group
};

// Whatever of `ids` the pages of the kept context `seq` still hold; nothing when it gave them up.
ExportedContext export_context(StepLoop& loop, const ContextShape& shape, kv::SeqId seq,
                               std::span<const int32_t> ids);

// `seq` becomes a kept context with the saved pages. False where there is no room for all of them:
// then nothing has happened.
bool import_context(StepLoop& loop, kv::SeqId seq, const SavedContext& context);

}  // namespace kvern::engine
