// Tensor form in, token form out: the conversion that turns an export into a paged, continuously
// batched model, or says which node stands in the way. It walks the graph once in several *worlds*
// of concrete batch, length and past: what depends on none of the model's numbers folds to
// constants (masks, tables, shapes), and of the rest every element is followed as a symbol. What an
// attention does, where a cache is read and written, which mask and which rotation it has, are read
// off these elements in every world; nothing is matched by shape of graph. docs/decisions/0011.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compile/ir/graph.h"
#include "compile/ir/tensor_graph.h"

namespace kvern::passes {

// What was found of one attention.
struct TokenLayer {
  std::string attention;  // "decomposed", "Attention", "com.microsoft.GroupQueryAttention", …
  std::string node;       // of the softmax or of the op
  std::string
      cache;  // "recognised", "introduced" (the file has none), "shared" with an earlier layer
  int64_t slot = 0;
  int64_t heads = 0, kv_heads = 0, dim_k = 0, dim_v = 0;
  double scale = 0, softcap = 0;
  std::string mask;           // "causal", "window 16", "alibi"
  int64_t proven_length = 0;  // longest total length at which the mask was evaluated
  std::string rope;           // "halves 64 of 64", "interleaved …", "none"
};

struct TokenFormOptions {
  // States as the user declares them: past input -> present output.
  std::map<std::string, std::string> states;
  // What inputs that Kvern cannot place hold: a number, or "past", "total", "tokens".
  std::map<std::string, std::string> inputs;
  // Integers of config.json that a mask may depend on: sliding_window, …
  std::vector<int64_t> lengths;
  std::map<std::string, int64_t> config;
  int64_t context_length = 0;  // the profile's maximum; 0: the model's
  // DynamicQuantizeLinear takes one scale over all tokens; true: activations are taken unrounded.
  bool per_token_dynamic_quant = false;
  // progress(done, total) nodes of the graph, from 0 for each try with shorter lengths; may be
  // empty, and may throw to end the work.
  std::function<void(uint64_t, uint64_t)> progress;
  // Where given, takes the layers that were found, also of a conversion that is refused.
  std::vector<TokenLayer>* layers_found = nullptr;
};

// How a cache of the file lies, for who fills it.
struct TokenCache {
  int64_t batch_axis = 0, length_axis = 0;
  // Per KV head and element of it: place in a row, which is one position of one sequence.
  std::vector<std::vector<int64_t>> place;
  double factor = 1;  // the file caches what the plan does, times this
};

struct TokenSlot {
  std::vector<int64_t> layers;
  int64_t kv_heads = 0;
  int64_t dim_k = 0;
  int64_t dim_v = 0;
  int64_t window = 0;           // 0: all
  std::string position_scheme;  // "rope", "alibi", "none" (learned ones are added to the embedding)
  std::string past_key, past_value, present_key, present_value;  // names; empty without a cache
  TokenCache key, value;                                         // where the file has one
};

// Tables that the graph chooses by length: the plan holds what it chooses at `decided_at` tokens.
struct LengthChoice {
  std::string node;
  int64_t decided_at = 0;
  std::vector<int64_t> same_at, other_at;  // lengths that were walked, by what is chosen there
};

struct TokenForm {
  ir::Graph graph;
  std::vector<TokenSlot> slots;
  std::vector<TokenLayer> layers;
  std::vector<LengthChoice> choices;
  bool one_token_steps = false;     // the file is right for one new token at a time after a past
  std::vector<std::string> notes;   // casts dropped, inputs placed, outputs left out
  std::vector<std::string> worlds;  // "batch 2, 3 tokens after 4"
  int64_t vocabulary_size = 0;
  int64_t hidden_size = 0;
  bool had_cache = false;
  std::string ids_input, mask_input, positions_input;  // names; empty where there is none
  int64_t learned_positions = 0;  // rows of the table of positions; 0: there is none
  int64_t capacity = 0;           // of a static cache; 0: it grows
};

// Throws Error(kUnsupported | kInvalidModel) naming the node, what it does, and what to do.
TokenForm to_token_form(const ir::TensorModel& model, const TokenFormOptions& options = {});

}  // namespace kvern::passes
