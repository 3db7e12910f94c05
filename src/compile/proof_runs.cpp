#include "compile/proof_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compile/eval/eval.h"
#include "compile/eval/tensor/tensor_eval.h"
#include "compile/ir/ops.h"
#include "compile/passes/token_form/feeds.h"
#include "compile/proof_past.h"
#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::compile {

namespace tf = passes::token_form;

int64_t ProofRun::total() const {
  return std::accumulate(steps.begin(), steps.end(), int64_t{0});
}

bool ProofRun::is_padded() const {
  return std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad > 0; });
}

int64_t ProofRun::real_tokens() const {
  return total() * batch() - std::accumulate(pads.begin(), pads.end(), int64_t{0});
}

std::string ProofRun::text() const {
  std::string out = fmt::format("{} token{}", steps[0], steps[0] == 1 ? "" : "s");
  if (batch() > 1) out = fmt::format("{} sequences, {}", batch(), out);
  if (is_padded()) out = fmt::format("{} padded on the left by {}", out, fmt::join(pads, ", "));
  if (past > 0) out = fmt::format("{} behind {} random rows", out, past);
  if (steps.size() == 1) return out;
  return fmt::format("{}, then {}", out, fmt::join(steps.begin() + 1, steps.end(), ", "));
}

namespace {

bool is_prefill_branch(const tf::InputPlan::Line& line, const std::string& name) {
  return line.role == "scalar" && name.find("use_cache") != std::string::npos;
}

// The file's graph with its caches, between steps.
class Original {
 public:
  Original(const ir::TensorModel& model, const passes::TokenForm& form,
           const passes::TokenFormOptions& options, const ProofRun& run, const eval::KvState& past)
      : model_(model), form_(form), options_(options), run_(run) {
    plan_ = tf::plan_inputs(model, options);
    for (const tf::InputPlan::Line& line : plan_.lines) {
      if (line.role == "past") has_past_ = true;
    }
    if (run.past > 0) caches_ = file_past(model, form, plan_, past, world(run.past, run.steps[0]));
  }

  bool has_past() const { return has_past_; }

  // The logits of `tokens` more of every sequence: [batch * tokens][vocabulary].
  std::vector<float> step(const Ids& ids, int64_t from, int64_t tokens) {
    const tf::World now = world(run_.past + from, tokens);
    std::map<std::string, ir::Array> inputs;
    for (const tf::InputPlan::Line& line : plan_.lines) {
      inputs.emplace(model_.graph.name_of(line.id), input_of(line, now, ids));
    }
    std::map<std::string, ir::Array> outputs = eval::run_tensor_graph(model_.graph, inputs);
    for (const passes::TokenSlot& slot : form_.slots) {
      if (slot.past_key.empty()) continue;
      caches_[slot.past_key] = fed_back(outputs.at(slot.present_key), slot.past_key);
      caches_[slot.past_value] = fed_back(outputs.at(slot.present_value), slot.past_value);
    }
    return logits_of(outputs).to_f32();
  }

 private:
  // Exporters may return f32 of what they take as f16: whoever feeds it back rounds it.
  ir::Array fed_back(const ir::Array& present, const std::string& past) const {
    const auto id = static_cast<size_t>(model_.graph.find(past));
    const ir::ElementType type = model_.graph.values[id].type;
    if (present.type() != ir::ElementType::kFloat || type != ir::ElementType::kFloat16) {
      return present;
    }
    ir::Array out(type, present.shape());
    const std::span<uint16_t> to = out.mutable_as<uint16_t>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = f32_to_f16(present.as<float>()[i]);
    return out;
  }

  tf::World world(int64_t past, int64_t tokens) const {
    tf::World out{run_.batch(), tokens, past};
    if (plan_.free_capacity) out.capacity = run_.past + run_.total() + 5;
    return out;
  }

  ir::Array input_of(const tf::InputPlan::Line& line, const tf::World& world, const Ids& ids) {
    const ir::TensorValue& value = model_.graph.values[static_cast<size_t>(line.id)];
    if (line.role == "ids") {
      std::vector<int64_t> all;
      for (const std::vector<int64_t>& row : ids) {
        const auto begin = row.begin() + world.past - run_.past;
        all.insert(all.end(), begin, begin + world.tokens);
      }
      return tf::ids_like(value.type, {world.batch, world.tokens}, all);
    }
    if (line.role == "past") {
      const auto held = caches_.find(value.name);
      if (held != caches_.end()) return held->second;
      Shape shape = tf::past_shape(model_.graph, line, world);
      const int64_t rows = sliding_rows(line.id);
      if (rows > 0) shape[static_cast<size_t>(line.length_axis)] = rows;
      return ir::Array(value.type, shape);
    }
    if (is_prefill_branch(line, value.name) && world.past == 0) {
      tf::InputPlan::Line off = line;
      off.meaning = "0";
      return tf::input_array(model_.graph, plan_, off, options_, world, run_.pads);
    }
    return tf::input_array(model_.graph, plan_, line, options_, world, run_.pads);
  }

  // A sliding cache of GroupQueryAttention holds its window's rows from the beginning; 0: no such.
  int64_t sliding_rows(ir::TensorValueId past) const {
    for (const ir::TensorNode& node : model_.graph.nodes) {
      if (node.op != "GroupQueryAttention" || node.i("sliding_window_cache", 0) == 0) continue;
      if (std::find(node.inputs.begin(), node.inputs.end(), past) == node.inputs.end()) continue;
      return node.i("local_window_size", 0);
    }
    return 0;
  }

  // By name, else the first output of floats as wide as the vocabulary.
  const ir::Array& logits_of(const std::map<std::string, ir::Array>& outputs) const {
    const auto named = outputs.find("logits");
    if (named != outputs.end()) return named->second;
    for (const ir::TensorValueId id : model_.graph.outputs) {
      const ir::Array& array = outputs.at(model_.graph.name_of(id));
      const bool fits = ir::is_float(array.type()) && array.rank() == 3 &&
                        array.shape().back() == form_.vocabulary_size;
      if (fits) return array;
    }
    throw Error(Code::kUnsupported, "onnx: no output of the graph holds logits");
  }

  const ir::TensorModel& model_;
  const passes::TokenForm& form_;
  const passes::TokenFormOptions& options_;
  const ProofRun& run_;
  tf::InputPlan plan_;
  bool has_past_ = false;
  std::map<std::string, ir::Array> caches_;
};

class SourceWeights final : public eval::WeightProvider {
 public:
  explicit SourceWeights(const quantize::Files& files) : files_(files) {}
  eval::HostTensor load(const ir::Graph& graph, const ir::Weight& weight) override {
    return {weight.shape, quantize::materialize_f32(graph, weight, files_), {}};
  }

 private:
  const quantize::Files& files_;
};

}  // namespace

Logits run_original(const ir::TensorModel& model, const passes::TokenForm& form,
                    const passes::TokenFormOptions& options, const ProofRun& run, const Ids& ids,
                    const eval::KvState& past) {
  Original original(model, form, options, run, past);
  Logits out(ids.size());
  std::vector<int64_t> steps = run.steps;
  if (!original.has_past()) steps = {run.total()};
  int64_t from = 0;
  for (const int64_t tokens : steps) {
    const std::vector<float> made = original.step(ids, from, tokens);
    const int64_t each = tokens * form.vocabulary_size;
    if (static_cast<int64_t>(made.size()) != each * run.batch()) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: the graph gives {} logits for {} tokens of a vocabulary of {}",
                              made.size(), tokens * run.batch(), form.vocabulary_size));
    }
    for (size_t b = 0; b < out.size(); ++b) {
      const auto begin = made.begin() + static_cast<int64_t>(b) * each;
      out[b].insert(out[b].end(), begin, begin + each);
    }
    from += tokens;
  }
  return out;
}

Logits run_converted(const ir::Graph& graph, const quantize::Files& files, const ProofRun& run,
                     const Ids& ids, eval::KvState& kv) {
  SourceWeights weights(files);
  Logits out(ids.size());
  const eval::KvState begin = std::move(kv);
  for (size_t b = 0; b < ids.size(); ++b) {
    kv = begin;
    auto position = static_cast<int32_t>(run.past);
    for (int64_t from = run.pads[b]; from < run.total();) {
      const int64_t to = from < run.steps[0] ? run.steps[0] : run.total();
      std::vector<int32_t> chunk, positions, wanted;
      for (int64_t i = from; i < to; ++i) {
        wanted.push_back(static_cast<int32_t>(chunk.size()));
        chunk.push_back(static_cast<int32_t>(ids[b][static_cast<size_t>(i)]));
        positions.push_back(position++);
      }
      const Shape shape = {to - from};
      const auto made = eval::run(graph,
                                  {{"ids", {shape, {}, chunk}},
                                   {"positions", {shape, {}, positions}},
                                   {"wanted", {shape, {}, wanted}}},
                                  weights, kv);
      const std::vector<float>& logits = made.at("logits").f32;
      out[b].insert(out[b].end(), logits.begin(), logits.end());
      from = to;
    }
  }
  return out;
}

}  // namespace kvern::compile
