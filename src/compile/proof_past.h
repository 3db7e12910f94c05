// Caches of random rows, alike on both sides of a proof: what a file does far from the beginning
// shows in a few tokens, without all those before them.
#pragma once

#include <map>
#include <string>

#include "compile/eval/eval.h"
#include "compile/passes/token_form/inputs.h"
#include "compile/proof_random.h"

namespace kvern::compile {

// Empty, or why the file's caches cannot be filled so.
std::string why_no_random_past(const ir::TensorModel& model, const passes::TokenForm& form,
                               const passes::token_form::InputPlan& plan);

// Bytes of one position's rows, in f32.
int64_t row_bytes(const passes::TokenForm& form);

// `rows` rows of every slot, exact in bf16. Values are as large as those of `seen`, which a run
// left behind; keys so that scores spread by about `spread` (standard deviation), if queries are as
// large as the keys of `seen`: the wider, the fewer rows an attention looks at.
eval::KvState random_past(const passes::TokenForm& form, const eval::KvState& seen, int64_t rows,
                          double spread, Random& random);
// The same with keys moved by 2e-4 of themselves: about what angles far away lose in f32.
eval::KvState nudged(eval::KvState rows, Random& random);

// The same rows as the file's cache inputs hold them, for `world.past` rows and every sequence.
std::map<std::string, ir::Array> file_past(const ir::TensorModel& model,
                                           const passes::TokenForm& form,
                                           const passes::token_form::InputPlan& plan,
                                           const eval::KvState& rows,
                                           const passes::token_form::World& world);

}  // namespace kvern::compile
