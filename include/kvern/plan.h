// Looking into a plan without running it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "kvern/types.h"

namespace kvern {

struct PlanSummary {
  std::string model;    // the model's own name
  std::string family;   // "llama"
  std::string weights;  // as asked for at build: "keep", "bf16", …
  int64_t num_parameters = 0;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t vocabulary_size = 0;
  int64_t max_context_length = 0;  // tokens
  int64_t max_sequences = 0;
  int64_t max_tokens_per_step = 0;
  uint64_t file_bytes = 0;
  uint64_t weight_bytes = 0;         // all of it
  uint64_t decode_weight_bytes = 0;  // what one decoded token reads of the weights
  uint64_t kv_bytes_per_token = 0;
  std::string kv_format;  // "bf16"
  int64_t page_tokens = 0;
  bool has_tokenizer = false;
  bool has_chat_template = false;
  Sampling sampling;       // what the model's makers propose; greedy where they propose nothing
  bool synthetic = false;  // weights are drawn from a seed: nothing it says means anything
};

// One kernel call of the plan's program.
struct PlanInstruction {
  std::string source;  // the graph's value: "layers.3.qkv"
  std::string family;  // "linear"
  std::string tactic;  // the preferred implementation; empty: the best that runs here
  std::string desc;    // its shapes and formats, readable
};

// A plan opened and checked (its weights' sums excepted). Immutable; thread-safe.
class Plan {
 public:
  // Throws Error(kNotFound | kIo | kInvalidPlan | kUnsupported).
  static Plan open(const std::string& path);
  ~Plan();
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;

  const PlanSummary& summary() const;
  std::vector<PlanInstruction> instructions() const;
  std::string manifest_json() const;
  std::string report_json() const;  // what the build did with each tensor
  std::string graph_text() const;   // the compiled graph, readable
  // How `value` ("layers.3.attn.qkv") is computed, by which implementation and why not another, and
  // where its weights come from. Throws Error(kInvalidArgument) naming similar values.
  std::string why(std::string_view value) const;
  // All of the above but the graph as one JSON object.
  std::string to_json() const;

 private:
  struct State;
  explicit Plan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvern
