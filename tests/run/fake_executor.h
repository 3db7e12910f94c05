// An Executor without a model: checks what it is given and samples a fixed function of the context.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "base/check.h"
#include "run/exec/executor.h"

namespace kvern::testing {

class FakeExecutor final : public exec::Executor {
 public:
  // Next token of a context.
  using NextToken = std::function<int32_t(const std::vector<int32_t>&)>;
  explicit FakeExecutor(std::vector<kv::GroupConfig> groups, NextToken next_token,
                        int32_t vocabulary = 16)
      : groups_(std::move(groups)), next_token_(std::move(next_token)), vocabulary_(vocabulary) {}

  std::function<void(const step::StepBatch&)> on_run;  // may throw

  step::StepResult run(const step::StepBatch& batch, const kv::Lease& lease) override {
    if (on_run) on_run(batch);
    step::StepResult result;
    for (const kv::SeqId id : batch.released) contexts_.erase(id);
    for (const kv::SeqId id : batch.closed) contexts_.erase(id);
    for (const step::SequenceInput& part : batch.sequences) {
      result.sequences.push_back(run_part(part, lease));
    }
    return result;
  }

 private:
  step::SequenceResult run_part(const step::SequenceInput& part, const kv::Lease& lease) {
    std::vector<int32_t>& context = contexts_[part.seq];
    KVERN_CHECK(static_cast<size_t>(part.start) == context.size(), "start {} of {} computed",
                part.start, context.size());
    KVERN_CHECK(part.count == static_cast<int32_t>(part.ids.size()) && part.count > 0);
    check_pages(part, lease);
    step::SequenceResult result;
    result.seq = part.seq;
    for (int32_t i = 0; i < part.count; ++i) {
      context.push_back(part.ids[static_cast<size_t>(i)]);
      for (size_t r = 0; r < part.logits_rows.size(); ++r) {
        if (part.logits_rows[r] == i) add_row(part, r, context, result);
      }
    }
    if (part.logits == step::LogitsWanted::kLast && part.purpose == step::Purpose::kSample) {
      result.sampled = next_token_(context);
      if (part.num_logprobs >= 0) result.logprobs.push_back({{*result.sampled, -1.0f}, {}});
    }
    return result;
  }

  // kLogprobs: the log-probability of an id is minus the context's length.
  void add_row(const step::SequenceInput& part, size_t row, const std::vector<int32_t>& context,
               step::SequenceResult& result) const {
    if (part.purpose != step::Purpose::kLogprobs) return add_logits(context, result.logits);
    int32_t id = part.targets.at(row);
    if (id == step::kToBeSampled) {
      id = next_token_(context);
      result.sampled = id;
      if (part.num_logprobs < 0) return;
    }
    result.logprobs.push_back({{id, -static_cast<float>(context.size())}, {}});
  }

  void check_pages(const step::SequenceInput& part, const kv::Lease& lease) const {
    const kv::PageTable& table = lease.table(part.seq);
    KVERN_CHECK(table.groups.size() == groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int64_t room = static_cast<int64_t>(table.groups[g].size()) * groups_[g].page_tokens;
      KVERN_CHECK(part.start + part.count <= room, "{} tokens in {} pages of group {}",
                  part.start + part.count, table.groups[g].size(), g);
    }
  }

  void add_logits(const std::vector<int32_t>& context, std::vector<float>& logits) const {
    const int32_t token = next_token_(context);
    for (int32_t i = 0; i < vocabulary_; ++i) logits.push_back(i == token ? 1.0f : 0.0f);
  }

  std::vector<kv::GroupConfig> groups_;
  NextToken next_token_;
  int32_t vocabulary_;
  std::map<kv::SeqId, std::vector<int32_t>> contexts_;
};

}  // namespace kvern::testing
