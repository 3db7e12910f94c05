// An Executor without a model: checks what it is given and samples a fixed function of the context.
// The context lives in pages, as K and V do: a page that is lost, shared wrongly or written by two
// shows in the answers.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "base/check.h"
#include "run/exec/executor.h"

namespace kvern::testing {

class FakeExecutor final : public exec::Executor {
 public:
  // Next token of a context; of what is left of it where every KV group has a window.
  using NextToken = std::function<int32_t(const std::vector<int32_t>&)>;
  explicit FakeExecutor(std::vector<kv::GroupConfig> groups, NextToken next_token,
                        int32_t vocabulary = 16)
      : groups_(std::move(groups)), next_token_(std::move(next_token)), vocabulary_(vocabulary) {
    for (const kv::GroupConfig& group : groups_) {
      memory_.emplace_back(
          static_cast<size_t>(group.num_pages) * static_cast<size_t>(group.page_tokens), -1);
    }
  }

  std::function<void(const step::StepBatch&)> on_run;  // may throw
  std::function<void(step::StepResult&)> on_result;    // may change it
  int64_t num_computed = 0;                            // tokens
  int64_t num_copies = 0;                              // of pages

  step::StepResult run(const step::StepBatch& batch, const kv::Lease& lease) override {
    if (on_run) on_run(batch);
    for (const kv::PageCopy& copy : batch.page_copies) {
      const auto g = static_cast<size_t>(copy.kv_group);
      std::copy_n(page(g, copy.src), groups_[g].page_tokens, page(g, copy.dst));
      ++num_copies;
    }
    step::StepResult result;
    for (const step::SequenceInput& part : batch.sequences) write_part(part, lease);
    for (const step::SequenceInput& part : batch.sequences) {
      result.sequences.push_back(read_part(part, lease));
    }
    if (on_result) on_result(result);
    return result;
  }

  int64_t page_bytes(size_t g) const override {
    return groups_[g].page_tokens * static_cast<int64_t>(sizeof(int32_t));
  }
  void export_page(size_t g, kv::PageId id, exec::PageTokens tokens,
                   std::span<std::byte> to) override {
    std::fill(to.begin(), to.end(), std::byte{});
    const auto first = static_cast<size_t>(tokens.begin) * sizeof(int32_t);
    const auto end = static_cast<size_t>(tokens.end) * sizeof(int32_t);
    std::memcpy(to.data() + first, page(g, id) + tokens.begin, end - first);
  }
  void import_page(size_t g, kv::PageId id, std::span<const std::byte> from) override {
    std::memcpy(page(g, id), from.data(), from.size());
  }

 private:
  int32_t* page(size_t g, kv::PageId id) {
    KVERN_CHECK(id.value >= 0 && id.value < groups_[g].num_pages, "page {}", id.value);
    return memory_[g].data() + static_cast<ptrdiff_t>(id.value) * groups_[g].page_tokens;
  }

  int32_t& token(const kv::PageTable& table, size_t g, int32_t position) {
    const int32_t page_tokens = groups_[g].page_tokens;
    const auto index = static_cast<size_t>(position / page_tokens);
    KVERN_CHECK(index < table.groups[g].size(), "token {} in {} pages of group {}", position,
                table.groups[g].size(), g);
    return page(g, table.groups[g][index])[position % page_tokens];
  }

  void write_part(const step::SequenceInput& part, const kv::Lease& lease) {
    KVERN_CHECK(part.count == static_cast<int32_t>(part.ids.size()) && part.count > 0);
    const kv::PageTable& table = lease.table(part.seq);
    KVERN_CHECK(table.groups.size() == groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int32_t i = 0; i < part.count; ++i) {
        token(table, g, part.start + i) = part.ids[static_cast<size_t>(i)];
      }
    }
    num_computed += part.count;
  }

  int32_t first_seen(size_t g, int32_t position) const {
    const int32_t window = groups_[g].window_tokens;
    return window == 0 ? 0 : std::max(0, position - window + 1);
  }

  // What the token at `position` sees; every group must say the same of what it sees.
  std::vector<int32_t> context_at(const kv::PageTable& table, int32_t position) {
    size_t widest = 0;
    for (size_t g = 1; g < groups_.size(); ++g) {
      if (first_seen(g, position) < first_seen(widest, position)) widest = g;
    }
    const int32_t first = first_seen(widest, position);
    std::vector<int32_t> context;
    for (int32_t p = first; p <= position; ++p) context.push_back(token(table, widest, p));
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int32_t p = first_seen(g, position); p <= position; ++p) {
        KVERN_CHECK(token(table, g, p) == context[static_cast<size_t>(p - first)],
                    "groups {} and {} differ at {}", g, widest, p);
      }
    }
    return context;
  }

  step::SequenceResult read_part(const step::SequenceInput& part, const kv::Lease& lease) {
    const kv::PageTable& table = lease.table(part.seq);
    step::SequenceResult result;
    result.seq = part.seq;
    for (int32_t i = 0; i < part.count; ++i) {
      KVERN_CHECK(token(table, 0, part.start + i) == part.ids[static_cast<size_t>(i)],
                  "sequence {}: another one wrote its page", part.seq.value);
    }
    for (size_t r = 0; r < part.logits_rows.size(); ++r) {
      add_row(part, r, context_at(table, part.start + part.logits_rows[r]), result);
    }
    if (part.logits == step::LogitsWanted::kLast && part.purpose == step::Purpose::kSample) {
      result.sampled = next_token_(context_at(table, part.start + part.count - 1));
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

  void add_logits(const std::vector<int32_t>& context, std::vector<float>& logits) const {
    const int32_t token = next_token_(context);
    for (int32_t i = 0; i < vocabulary_; ++i) logits.push_back(i == token ? 1.0f : 0.0f);
  }

  std::vector<kv::GroupConfig> groups_;
  NextToken next_token_;
  int32_t vocabulary_;
  std::vector<std::vector<int32_t>> memory_;  // by KV group: [page][token]
};

}  // namespace kvern::testing
