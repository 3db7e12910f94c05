// A model becomes a plan: `Builder` compiles, `verify_plan` proves a plan's bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "kvern/types.h"

namespace kvern {

struct BuildOptions {
  WeightFormat weights = WeightFormat::kKeep;
  KvCacheFormat kv = KvCacheFormat::kBf16;
  Activations activations = Activations::kDefault;
  int64_t max_context_length = 0;  // tokens of prompt and answer; 0: what the model was trained for
  int32_t max_sequences = 16;      // that run together
  int32_t max_tokens_per_step = 512;  // computed by one step, all sequences together
  int32_t page_tokens = 32;           // tokens of a KV page
  uint64_t seed = 0;                  // of the weights of "synthetic:CONFIG.json"
  ProgressFn progress;                // may be empty
  // Where BuildResult::report_json, or the reason of a refusal, is written too; empty: nowhere.
  std::string report_path;
  // Of ONNX files. verify: the plan's graph and the file's are run on random prompts, and the build
  // fails where their logits differ; otherwise the report says that this was skipped.
  bool verify = true;
  std::map<std::string, std::string> states;  // past input -> present output; else by data flow
  // What inputs that nothing else explains hold: "ids", "mask", "positions"; of one number "past",
  // "total", "tokens" or the number.
  std::map<std::string, std::string> inputs;
  // DynamicQuantizeLinear takes one scale over all tokens, which is refused; true: activations are
  // taken unrounded, other numbers.
  bool per_token_dynamic_quant = false;
  // May be empty. Gets the report of a build that is refused, before its error is thrown: status,
  // code, reason, and what was known of the model. It is written to report_path too.
  std::function<void(const std::string& report_json)> refused;
  // May be empty. Sees the finished plan under a temporary name; what it throws ends the build, and
  // an older plan stays.
  std::function<void(const std::string& plan_path)> accept;
  // Above 0: a model of another vocabulary is refused, before any weight is written.
  int64_t vocabulary_size = 0;
};

struct BuildResult {
  std::string plan_path;
  uint64_t plan_bytes = 0;
  double seconds = 0;
  std::string report_json;  // per tensor, weight and pass; also kept in the plan
  std::vector<std::string> warnings;
};

// What a report says of an ONNX import, as a table for people: per layer what was recognised, what
// became state, what stayed generic, the proof. Empty for reports of other models. Throws
// Error(kInvalidArgument) for a text that is no report.
std::string import_table(const std::string& report_json);

// What the build warned of. Throws as import_table.
std::vector<std::string> report_warnings(const std::string& report_json);

// Compiles a GGUF file (v2 or v3), a Hugging Face folder, an ONNX file or a folder with one, or
// "synthetic:CONFIG.json". Stateless between calls; one call at a time per object.
class Builder {
 public:
  // Throws Error(kInvalidArgument) for options out of range.
  explicit Builder(BuildOptions options = {});

  // Reads `model_path`, writes `plan_path` through a temporary file beside it: a build that fails
  // or is killed leaves an older plan as it was. The same model and options give the same bytes.
  // Throws Error(kNotFound | kIo | kInvalidModel | kUnsupported | kInvalidArgument).
  BuildResult build(const std::string& model_path, const std::string& plan_path) const;

  // 16 hex digits that change with the model's content and with every option that changes the plan:
  // the name of a cached build. Reads the whole model once. Throws as build().
  std::string key(const std::string& model_path) const;

 private:
  BuildOptions options_;
};

// Reads the whole plan and compares every sum. Throws Error(kInvalidPlan) naming what is damaged,
// Error(kNotFound | kIo | kUnsupported) as Plan::open.
void verify_plan(const std::string& plan_path, const ProgressFn& progress = {});

// How far the predictions of `candidate` are from those of `reference`, over `num_tokens` random
// ids (from a fixed seed; fewer where the context is shorter) that both read.
struct PlanDivergence {
  int64_t positions = 0;
  double mean_kl = 0;  // nats; sum p log(p / q), p the reference's
  double max_kl = 0;
  double top1_agreement = 0;  // share of positions where both choose the same id
};
// Throws as Plan::open, and Error(kInvalidArgument) where the vocabularies differ.
PlanDivergence compare_plans(const std::string& reference_plan, const std::string& candidate_plan,
                             int64_t num_tokens = 512);

// True when the file begins like a plan. False for a file that is absent or unreadable.
bool is_plan(const std::string& path);

inline constexpr int64_t kMaxTraceTokens = int64_t{1} << 24;

struct RequestLengths {
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
};

// One of the two. memory_bytes: of weights, KV pages and activations together.
struct SizeOptions {
  uint64_t memory_bytes = 0;
  int64_t sequences = 0;  // that are to run together
};

// What a load needs of a plan. Bytes of a sequence are those of its KV pages: on the mean over its
// life, and at the end of the request at the 95th percentile of lengths, and of the longest.
struct SizeProposal {
  int64_t requests = 0;
  int64_t p50_tokens = 0, p95_tokens = 0, p99_tokens = 0, max_tokens = 0;  // prompt and answer
  int64_t context_length = 0;       // to build with: holds every request
  int64_t plan_context_length = 0;  // the plan's own
  int64_t beyond_plan = 0;          // requests that it would refuse or cut
  uint64_t mean_sequence_bytes = 0, p95_sequence_bytes = 0, max_sequence_bytes = 0;
  int64_t sequences = 0;  // together, at their mean; more waits or is preempted
  int64_t sequences_at_p95 = 0, sequences_at_max = 0;
  int64_t kv_capacity_tokens = 0;  // EngineOptions::kv_capacity_tokens
  uint64_t kv_bytes = 0, weight_bytes = 0, activation_bytes = 0, memory_bytes = 0;
};

// Throws as Plan::open, and Error(kInvalidArgument) for a trace or a memory that cannot be.
SizeProposal propose_size(const std::string& plan_path, const std::vector<RequestLengths>& trace,
                          const SizeOptions& options);

// An input or output of a graph.
struct GraphPort {
  std::string name;
  std::string type;   // "float", "int64", …: ONNX's names
  std::string shape;  // "[batch, 8]"; empty where the file does not say
};

struct GraphOp {
  std::string domain;  // "" is ONNX's own
  std::string op;
  int64_t opset = 0;  // that the file imports of the domain
  int64_t count = 0;  // nodes, those in bodies of If and Loop too
  bool supported = false;
};

struct GraphSummary {
  std::string path;      // of the .onnx file
  std::string producer;  // "pytorch 2.9.1"
  int64_t ir_version = 0;
  std::vector<std::string> opsets;  // "ai.onnx 18"
  std::vector<GraphPort> inputs, outputs;
  std::vector<GraphOp> ops;
  std::vector<std::string> warnings;
};

// What an .onnx file, or the one in a folder, says of itself. Throws Error(kNotFound | kIo |
// kInvalidModel | kUnsupported).
GraphSummary summarize_graph(const std::string& model_path);

struct RunGraphOptions {
  uint64_t max_memory_bytes = uint64_t{8} << 30;  // of all values alive at once
  std::vector<std::string> also;                  // values to write besides the outputs, by name
};

struct RunGraphResult {
  std::vector<GraphPort> outputs;
  double seconds = 0;  // of the run alone
  std::vector<std::string> notes;
};

// Runs an ONNX graph as it is written, without making a plan: the oracle of imports. Reads inputs
// from and writes outputs to .npz files (numpy.savez). Where npy lacks a type (bfloat16, float8),
// float32 stands for it on both sides. Throws as summarize_graph; Error(kInvalidArgument) for
// inputs that are missing or do not fit names those that are wanted, with type and shape;
// Error(kOutOfMemory) above the limit.
RunGraphResult run_graph(const std::string& model_path, const std::string& inputs_npz,
                         const std::string& outputs_npz, const RunGraphOptions& options = {});

}  // namespace kvern
