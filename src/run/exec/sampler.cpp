#include "run/exec/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace kvern::exec {
namespace {

float* row_at(const kernels::Operand& logits, int64_t row) {
  return reinterpret_cast<float*>(logits.data + row * logits.row_stride_bytes);
}

int64_t num_rows(const step::SequenceInput& part) {
  if (part.logits == step::LogitsWanted::kNone) return 0;
  if (part.logits == step::LogitsWanted::kLast) return 1;
  return static_cast<int64_t>(part.logits_rows.size());
}

// NaN is left out.
float largest_of(const float* logits, int64_t count) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) largest = logits[i] > largest ? logits[i] : largest;
  return largest;
}

void fail(const step::SequenceInput& part, bool model_is_sound, step::SequenceResult& out) {
  if (model_is_sound) {
    out.failure = "sampling: logit_bias and the penalties leave no token that can be drawn";
    out.failure_code = Code::kInvalidRequest;
  } else {
    out.failure = fmt::format(
        "the model's logits after token {} are not finite numbers; the plan or its source is "
        "broken",
        part.start + part.count - 1);
  }
}

}  // namespace

kernels::LogitChange& Sampler::Sequence::change(int32_t id) {
  const auto [it, added] = places.try_emplace(id, changes.size());
  if (added) changes.push_back({id});
  return changes[it->second];
}

void Sampler::Sequence::note_prompt(int32_t id) {
  if (params.repeats_matter()) change(id).repetition = params.repetition_penalty;
}

void Sampler::Sequence::note_answer(int32_t id) {
  note_prompt(id);
  if (!params.counts_matter()) return;
  const bool again = counts[id]++ > 0;
  change(id).minus += params.frequency_penalty + (again ? 0.0f : params.presence_penalty);
}

void Sampler::update(const step::StepBatch& batch) {
  for (const kv::SeqId id : batch.closed) {
    sequences_.erase(id);
    last_samples_.erase(id);
  }
  for (const step::OpenedSequence& opened : batch.opened) {
    Sequence& sequence = sequences_[opened.seq];
    sequence = {opened.sampling, {}, {}, {}};
    for (const LogitBias& bias : opened.sampling.logit_bias) {
      sequence.change(bias.id).bias = bias.bias;
    }
    for (const int32_t id : opened.prompt_ids) sequence.note_prompt(id);
    for (const int32_t id : opened.answer_ids) sequence.note_answer(id);
    for (const kernels::LogitChange& change : sequence.changes) {
      KVERN_CHECK(change.id >= 0 && change.id < vocabulary_, "sequence {}: id {} outside [0, {})",
                  opened.seq.value, change.id, vocabulary_);
    }
  }
}

void Sampler::run(const step::StepBatch& batch, const kernels::Operand& logits,
                  device::Stream& stream, step::StepResult& result) {
  KVERN_CHECK(result.sequences.size() == batch.sequences.size());
  list_wishes(batch);
  find_largest(logits, stream);
  draw(logits, stream);
  stream.synchronize();
  for (const Wish& wish : wishes_) {
    take(wish, batch.sequences[wish.part], row_at(logits, wish.row), result.sequences[wish.part]);
  }
}

void Sampler::list_wishes(const step::StepBatch& batch) {
  wishes_.clear();
  rows_.clear();
  int64_t row = 0;
  for (size_t p = 0; p < batch.sequences.size(); ++p) {
    const step::SequenceInput& part = batch.sequences[p];
    const int64_t first = row;
    row += num_rows(part);
    if (part.purpose == step::Purpose::kExport || row == first) continue;
    if (part.purpose == step::Purpose::kSample) {
      if (part.logits == step::LogitsWanted::kLast)
        add_row(wishes_.emplace_back(Wish{p, first}), part);
      continue;
    }
    KVERN_CHECK(static_cast<int64_t>(part.targets.size()) == row - first,
                "sequence {}: {} targets of {} rows", part.seq.value, part.targets.size(),
                row - first);
    for (size_t i = 0; i < part.targets.size(); ++i) {
      const int32_t target = part.targets[i];
      const int64_t at = first + static_cast<int64_t>(i);
      KVERN_CHECK(
          target == step::kToBeSampled ? at == row - 1 : target >= 0 && target < vocabulary_,
          "sequence {}: target {}", part.seq.value, target);
      add_row(wishes_.emplace_back(Wish{p, at, target}), part);
    }
  }
}

void Sampler::add_row(Wish& wish, const step::SequenceInput& part) {
  const auto it = sequences_.find(part.seq);
  const bool told = wish.target != step::kToBeSampled || part.num_logprobs >= 0;
  kernels::SampleRow row;
  if (wish.target != step::kToBeSampled) {
    row.target = wish.target;
  } else if (it != sequences_.end()) {
    const step::SamplingParams& params = it->second.params;
    row.changes = it->second.changes;
    row.temperature = params.temperature;
    row.top_k = params.top_k;
    row.top_p = params.top_p;
    row.min_p = params.min_p;
    row.seed = params.seed;
    row.counter = static_cast<uint64_t>(part.start) + static_cast<uint64_t>(part.count);
  }
  if (!told && row.temperature <= 0.0f && row.changes.empty()) return;
  row.num_top = told ? std::max(part.num_logprobs, 0) : -1;
  wish.drawn = static_cast<int64_t>(rows_.size());
  rows_.push_back(row);
}

// Greedy rows that nothing changes, adjacent ones in one launch.
void Sampler::find_largest(const kernels::Operand& logits, device::Stream& stream) {
  largest_.resize(static_cast<size_t>(logits.rows));
  const int64_t stride = logits.row_stride_bytes / static_cast<int64_t>(sizeof(float));
  for (size_t i = 0; i < wishes_.size();) {
    const int64_t first = wishes_[i].row;
    int64_t end = first;
    for (; i < wishes_.size() && wishes_[i].drawn < 0 && wishes_[i].row == end; ++i) ++end;
    if (end == first) {
      ++i;
      continue;
    }
    kernels::argmax_cpu({row_at(logits, first), end - first, vocabulary_, stride,
                         largest_.data() + first, &stream});
  }
}

void Sampler::draw(const kernels::Operand& logits, device::Stream& stream) {
  if (rows_.empty()) return;
  logprobs_.resize(rows_.size());
  for (const Wish& wish : wishes_) {
    if (wish.drawn < 0) continue;
    kernels::SampleRow& row = rows_[static_cast<size_t>(wish.drawn)];
    row.logits = row_at(logits, wish.row);
    if (row.num_top >= 0) row.logprobs = &logprobs_[static_cast<size_t>(wish.drawn)];
  }
  kernels::sample_cpu({rows_, vocabulary_, &scratch_, &stream});
}

void Sampler::take(const Wish& wish, const step::SequenceInput& part, const float* logits,
                   step::SequenceResult& out) {
  const auto drawn = static_cast<size_t>(std::max<int64_t>(wish.drawn, 0));
  int32_t id = wish.drawn < 0 ? largest_[static_cast<size_t>(wish.row)] : rows_[drawn].id;
  if (wish.drawn < 0 && !std::isfinite(logits[id])) id = -1;
  if (id < 0) {
    return fail(part, std::isfinite(largest_of(logits, vocabulary_)), out);
  }
  if (wish.drawn >= 0 && rows_[drawn].num_top >= 0) {
    out.logprobs.push_back(std::move(logprobs_[drawn]));
  }
  if (wish.target != step::kToBeSampled) return;
  out.sampled = id;
  last_samples_[part.seq] = id;
  const auto it = sequences_.find(part.seq);
  if (it != sequences_.end()) it->second.note_answer(id);
}

}  // namespace kvern::exec
