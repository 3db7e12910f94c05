// Runs a scheduler trace: a script of commands, each followed by what it did, indented.
//
//   options tokens=64 chunk=16 sequences=4 rows=16    (before the first submit; these are defaults)
//   groups 8x4 5x16                                   (pages x page_tokens, by KV group)
//   options … cache                                    (requests use the prefix cache)
//   groups 8x4w16                                     (a window of 16 tokens)
//   submit 1 prompt=5 max=3 [stop=7,9] [recompute] [export=0,3]
//   submit 2 prompt=5 max=3 like=1                    (the prompt that sequence 1 has)
//   submit 3 prompt=5 max=3 keep                      (its context is kept)
//   submit 4 prompt=5 max=3 base=3 [fork] [rewind=7]  (goes on from there; fork leaves 3 be)
//   drop 3 | flush                                    (a kept context; the prefix cache)
//   cancel 1 | pause 1 | resume 1
//   step      one Scheduler::next … apply; prints the batch, the events and the free pages
//   run       steps until a batch is empty
//   break     the next step's executor throws: the batch is abandoned
//
// A batch prints as `seq[start+count what]`: what = "" | sample | rows a,b; then by
// sequence `begins seq:tokens` (shared pages), `drops` (behind windows), `copies` (on write) and
// `takes seq:pages` (by KV group), `frees`, `opens`, `closes`. Prompts are (7 * seq + i) % 50 and
// the fake executor's next token is a function of the whole context, so that a lost or doubled
// token shows.
#pragma once

#include <string>

namespace kvern::sched {

// The same script with the output that this build gives.
std::string play_trace(const std::string& script);

}  // namespace kvern::sched
