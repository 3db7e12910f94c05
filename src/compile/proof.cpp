#include "compile/proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"
#include "compile/proof_past.h"
#include "compile/proof_random.h"
#include "compile/proof_runs.h"
#include "kvern/error.h"

namespace kvern::compile {
namespace {

constexpr double kAbsolute = 1e-4;  // of a difference, whatever the size of the logits
// A quantised activation that falls on the other side of a half moves one token's logits by more
// than the tolerance now and then; a wrong conversion moves all tokens from some position on.
constexpr double kRoundedApart = 3;      // times the tolerance
constexpr int64_t kTokensPerApart = 20;  // one token in so many

void note_types(const ir::TensorGraph& graph, bool& f16, bool& bf16, bool& quantised) {
  for (const auto& [id, array] : graph.constants) {
    f16 = f16 || array.type() == ir::ElementType::kFloat16;
    bf16 = bf16 || array.type() == ir::ElementType::kBfloat16;
  }
  for (const ir::TensorNode& node : graph.nodes) {
    quantised = quantised || node.op == "QuantizeLinear" || node.op == "DynamicQuantizeLinear";
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr);
      if (body != nullptr) note_types(**body, f16, bf16, quantised);
    }
  }
}

}  // namespace

bool computes_in_f32(const ir::TensorModel& model) {
  bool f16 = false, bf16 = false, quantised = false;
  note_types(model.graph, f16, bf16, quantised);
  return !f16 && !bf16 && !quantised;
}

namespace {

// The file rounds where it computes in less than f32, Kvern does not; a rounded activation may
// fall on the other side of a half.
// True where activations are quantised.
bool set_tolerance(const ir::TensorModel& model, bool shared_scales, Proof& proof) {
  bool f16 = false, bf16 = false, quantised = false;
  note_types(model.graph, f16, bf16, quantised);
  proof.tolerance = quantised ? 5e-2 : bf16 ? 6e-2 : f16 ? 2e-2 : 2e-3;
  proof.tolerance_of = quantised ? "quantised activations" : bf16 ? "bf16" : f16 ? "f16" : "f32";
  if (shared_scales) {  // token form leaves unrounded what the file rounds as it goes
    proof.tolerance = 1e-1;
    proof.tolerance_of = "dynamically quantised activations";
  }
  return quantised;
}

// Of scores with random keys; below, an attention is an average of its values.
constexpr double kLeastSpread = 0.05;
// A difference that a nudge of the rows makes as large, but for this factor, is no other's.
constexpr double kShaken = 8;

struct Difference {
  double largest = 0;  // |logit| of the file
  double worst = 0;    // |difference|; infinite where one is no number
  size_t sequence = 0;
  int64_t token = 0, id = 0;  // of the worst; the token counted without pads
  float file = 0, ours = 0;
  bool file_is_nan = false;
  std::vector<double> by_token;  // the worst |difference| of each, of all sequences
};

Difference compare(const ProofRun& run, const Logits& file, const Logits& ours,
                   int64_t vocabulary) {
  Difference out;
  for (size_t b = 0; b < file.size(); ++b) {
    const int64_t first = run.pads[b] * vocabulary;
    for (size_t i = 0; i < ours[b].size(); ++i) {
      const float a = file[b].at(static_cast<size_t>(first) + i), c = ours[b][i];
      const auto at = static_cast<int64_t>(i);
      out.file_is_nan = out.file_is_nan || std::isnan(a);
      out.largest = std::max(out.largest, std::abs(static_cast<double>(a)));
      double apart = std::abs(static_cast<double>(a) - c);
      if (std::isnan(apart)) apart = INFINITY;
      if (at % vocabulary == 0) out.by_token.push_back(0);
      out.by_token.back() = std::max(out.by_token.back(), apart);
      if (apart <= out.worst) continue;
      out.worst = apart;
      out.sequence = b;
      out.token = at / vocabulary;
      out.id = at % vocabulary;
      out.file = a;
      out.ours = c;
    }
  }
  return out;
}

// KL(a || b) of two rows of logits, in nats.
double divergence(const float* a, const float* b, int64_t count) {
  const auto log_sum = [&](const float* x) {
    const double largest = *std::max_element(x, x + count);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - largest);
    return largest + std::log(sum);
  };
  const double sum_a = log_sum(a), sum_b = log_sum(b);
  double out = 0;
  for (int64_t i = 0; i < count; ++i) {
    out += std::exp(a[i] - sum_a) * ((a[i] - sum_a) - (b[i] - sum_b));
  }
  return out;
}

class Prover {
 public:
  Prover(const ir::TensorModel& model, const passes::TokenForm& form, const ir::Graph& graph,
         const quantize::Files& files, const ProofOptions& options)
      : model_(model),
        form_(form),
        graph_(graph),
        files_(files),
        options_(options),
        num_ids_(num_ids(form, graph)) {}

  Proof run() {
    const auto begin = std::chrono::steady_clock::now();
    proof_.token_budget = proof_budget(options_);
    rounds_ = set_tolerance(model_, has_shared_scales(model_, options_), proof_);
    const std::vector<ProofRun> runs =
        choose_runs(model_, form_, graph_, options_, proof_.token_budget, proof_.notes);
    uint64_t total = 0, done = 0;
    for (const ProofRun& run : runs) total += static_cast<uint64_t>(run.real_tokens());
    for (const ProofRun& run : runs) {
      if (options_.progress) options_.progress(done, total);
      run.past > 0 ? prove_far(run) : prove_run(run);
      done += static_cast<uint64_t>(run.real_tokens());
    }
    if (options_.progress) options_.progress(done, total);
    if (has_shared_scales(model_, options_)) measure_divergence();
    KVERN_CHECK(proof_.tokens > 0, "a proof that compared nothing");
    proof_.status = "passed";
    proof_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return std::move(proof_);
  }

 private:
  Ids draw(const ProofRun& run) {
    Ids ids(run.pads.size());
    for (std::vector<int64_t>& row : ids) {
      for (int64_t i = 0; i < run.total(); ++i) row.push_back(random_.below(num_ids_));
    }
    return ids;
  }

  bool fits(const Difference& found) const {
    const double allowed = allowed_of(found.largest);
    if (found.worst <= allowed) return true;
    if (!rounds_ || found.worst > kRoundedApart * allowed) return false;
    const auto apart = std::count_if(found.by_token.begin(), found.by_token.end(),
                                     [&](double difference) { return difference > allowed; });
    return apart * kTokensPerApart <= static_cast<int64_t>(found.by_token.size());
  }

  double allowed_of(double largest) const { return proof_.tolerance * largest + kAbsolute; }

  void prove_run(const ProofRun& run) {
    const Ids ids = draw(run);
    const Difference found = differences(run, ids);
    if (fits(found)) return take(run, found);
    if (run.is_padded()) return prove_unpadded(run, ids, found);
    refuse(run, found);
  }

  // The plan would serve lengths at which the file does not even run.
  Logits original(const ProofRun& run, const Ids& ids, const eval::KvState& past = {}) const {
    try {
      return run_original(model_, form_, options_.conversion, run, ids, past);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      std::string_view why = error.what();
      if (why.starts_with("onnx: ")) why.remove_prefix(6);
      throw Error(
          Code::kUnsupported,
          fmt::format("onnx: the file itself does not run over {}: {}. No plan was written. "
                      "Where it runs over fewer tokens, build with a smaller "
                      "--max-context-length; --no-verify builds it unproved",
                      run.text(), why));
    }
  }

  Difference differences(const ProofRun& run, const Ids& ids) {
    eval::KvState kv;
    const Logits file = original(run, ids);
    const Logits ours = run_converted(graph_, files_, run, ids, kv);
    if (seen_.k.empty()) seen_ = std::move(kv);
    return compare(run, file, ours, form_.vocabulary_size);
  }

  // Where a step behind random rows magnifies roundings, they say nothing: with scores that spread
  // less it does not.
  void prove_far(ProofRun run) {
    const Ids ids = draw(run);
    for (; run.spread > kLeastSpread; run.spread /= 4) {
      const eval::KvState rows = random_past(form_, seen_, run.past, run.spread, random_);
      const Logits file = original(run, ids, rows);
      eval::KvState kv = rows;
      const Logits ours = run_converted(graph_, files_, run, ids, kv);
      const Difference found = compare(run, file, ours, form_.vocabulary_size);
      if (fits(found)) return take(run, found);
      kv = nudged(rows, random_);
      const Logits moved = run_converted(graph_, files_, run, ids, kv);
      const Difference shaken = compare(run, ours, moved, form_.vocabulary_size);
      if (!(shaken.worst > found.worst / kShaken)) refuse(run, found);
    }
    proof_.notes.push_back(fmt::format("{} magnify roundings, and prove nothing", run.text()));
  }

  // Kvern never pads: where the file counts padding, its numbers for each sequence alone count.
  void prove_unpadded(const ProofRun& padded, const Ids& ids, const Difference& apart) {
    const int64_t batch = std::max<int64_t>(fixed_batch(model_, options_), 1);
    for (size_t b = 0; b < ids.size(); ++b) {
      ProofRun alone{padded.steps, std::vector<int64_t>(static_cast<size_t>(batch), 0)};
      alone.steps[0] -= padded.pads[b];
      const Ids same(alone.pads.size(), {ids[b].begin() + padded.pads[b], ids[b].end()});
      const Difference found = differences(alone, same);
      if (!fits(found)) refuse(alone, found);
      take(alone, found);
    }
    proof_.notes.push_back(fmt::format(
        "a left-padded batch gives other numbers in the file than the same sequences alone{}: "
        "the plan gives the latter",
        apart.file_is_nan ? " (no numbers at all)" : fmt::format(" ({:.3g} apart)", apart.worst)));
  }

  void take(const ProofRun& run, const Difference& found) {
    proof_.runs.push_back(run.text());
    const int64_t length = run.past + run.steps[0];
    if (std::find(proof_.lengths.begin(), proof_.lengths.end(), length) == proof_.lengths.end()) {
      proof_.lengths.push_back(length);
    }
    proof_.tokens += run.real_tokens();
    if (found.worst > allowed_of(found.largest)) {
      proof_.notes.push_back(fmt::format(
          "of {}, token {} is {:.3g} apart: a rounded activation fell on the other side of a half",
          run.text(), found.token, found.worst));
    }
    proof_.max_abs_diff = std::max(proof_.max_abs_diff, found.worst);
    if (found.largest > 0) {
      proof_.max_rel_diff = std::max(proof_.max_rel_diff, found.worst / found.largest);
    }
  }

  // What one scale per token changes: runs of several tokens, where the file takes one over all.
  void measure_divergence() {
    int64_t most = std::min<int64_t>(17, proof_.token_budget);
    if (form_.capacity > 0) most = std::min(most, form_.capacity);
    if (options_.conversion.context_length > 0) {
      most = std::min(most, options_.conversion.context_length);
    }
    const int64_t batch = std::max<int64_t>(fixed_batch(model_, options_), 1);
    const ProofRun run{{most}, std::vector<int64_t>(static_cast<size_t>(batch), 0)};
    const Ids ids = draw(run);
    const Logits file = original(run, ids);
    eval::KvState kv;
    const Logits ours = run_converted(graph_, files_, run, ids, kv);
    for (int64_t t = 0; t < run.total(); ++t) {
      const int64_t at = t * form_.vocabulary_size;
      const double kl = divergence(file[0].data() + at, ours[0].data() + at, form_.vocabulary_size);
      proof_.kl_max = std::max(proof_.kl_max, kl);
      proof_.kl_mean += kl / static_cast<double>(run.total());
    }
    proof_.kl_tokens = run.total();
  }

  // Files of half precision may round far positions, as ALiBi's distances, until nothing is left.
  std::string advice(const ProofRun& run) const {
    const bool half = proof_.tolerance_of == "f16" || proof_.tolerance_of == "bf16";
    if (!half || run.past + run.total() < 256) return "";
    return fmt::format(
        "Where the file rounds distances or positions to {}, a smaller --max-context-length builds "
        "what is exact. ",
        proof_.tolerance_of);
  }

  [[noreturn]] void refuse(const ProofRun& run, const Difference& found) const {
    if (std::isnan(found.file)) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: the file itself gives no numbers: of {}, token {}, the logit "
                              "of id {} is NaN, so nothing can be proved. No plan was written. "
                              "Repair or re-export the model; --no-verify builds it unproved",
                              run.text(), found.token, found.id));
    }
    throw Error(
        Code::kUnsupported,
        fmt::format("onnx: the converted model does not compute what the file does: of {}, token "
                    "{}, the logit of id {} is {:.6g} in the file and {:.6g} converted ({:.3g} "
                    "apart; {:.0e} of the largest, {:.4g}, is allowed in {}). No plan was written. "
                    "{}Please report the model; --no-verify builds it unproved",
                    run.text(), found.token, found.id, found.file, found.ours, found.worst,
                    proof_.tolerance, found.largest, proof_.tolerance_of, advice(run)));
  }

  const ir::TensorModel& model_;
  const passes::TokenForm& form_;
  const ir::Graph& graph_;
  const quantize::Files& files_;
  const ProofOptions& options_;
  const int64_t num_ids_;
  Random random_{20261129};
  eval::KvState seen_;  // what the first run left: how large rows are
  bool rounds_ = false;
  Proof proof_;
};

}  // namespace

Proof prove(const ir::TensorModel& model, const passes::TokenForm& form, const ir::Graph& graph,
            const quantize::Files& files, const ProofOptions& options) {
  return Prover(model, form, graph, files, options).run();
}

}  // namespace kvern::compile
