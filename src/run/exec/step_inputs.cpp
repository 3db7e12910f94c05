#include "run/exec/step_inputs.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"

namespace kvern::exec {

void StepInputs::fill(const step::StepBatch& batch, const kv::Lease& lease,
                      const LastSamples& last_samples, const std::vector<KvPoolView>& pools,
                      int64_t vocabulary) {
  ids_.clear();
  positions_.clear();
  wanted_.clear();
  context_start_.clear();
  token_offset_.assign(1, 0);
  page_table_.resize(pools.size());
  table_offset_.resize(pools.size());
  for (std::vector<int32_t>& table : page_table_) table.clear();
  for (std::vector<int32_t>& offsets : table_offset_) offsets.assign(1, 0);
  for (const step::SequenceInput& part : batch.sequences) {
    const auto first_token = static_cast<int32_t>(ids_.size());
    add_tokens(part, last_samples, vocabulary);
    add_wanted(part, first_token);
    context_start_.push_back(part.start);
    token_offset_.push_back(static_cast<int32_t>(ids_.size()));
    for (size_t g = 0; g < pools.size(); ++g) add_pages(part, lease.table(part.seq), g, pools[g]);
  }
  kv_.clear();
  for (size_t g = 0; g < pools.size(); ++g) {
    kv_.push_back({pools[g].base, pools[g].page_bytes, pools[g].page_tokens, pools[g].num_pages,
                   page_table_[g].data(), table_offset_[g].data()});
  }
  view_ = {static_cast<int32_t>(ids_.size()), static_cast<int32_t>(batch.sequences.size()),
           token_offset_.data(), context_start_.data(), kv_};
}

void StepInputs::add_tokens(const step::SequenceInput& part, const LastSamples& last_samples,
                            int64_t vocabulary) {
  KVERN_CHECK(part.start >= 0 && part.count >= 1 && part.start <= INT32_MAX - part.count,
              "sequence {}: {} tokens at {}", part.seq.value, part.count, part.start);
  if (part.input == step::InputKind::kIds) {
    KVERN_CHECK(part.ids.size() == static_cast<size_t>(part.count), "sequence {}: {} ids for {}",
                part.seq.value, part.ids.size(), part.count);
    ids_.insert(ids_.end(), part.ids.begin(), part.ids.end());
  } else {
    const auto last = last_samples.find(part.seq);
    KVERN_CHECK(part.count == 1 && last != last_samples.end(), "sequence {} has no sample yet",
                part.seq.value);
    ids_.push_back(last->second);
  }
  for (size_t i = ids_.size() - static_cast<size_t>(part.count); i < ids_.size(); ++i) {
    KVERN_CHECK(ids_[i] >= 0 && ids_[i] < vocabulary, "sequence {}: id {} outside [0, {})",
                part.seq.value, ids_[i], vocabulary);
  }
  for (int32_t i = 0; i < part.count; ++i) positions_.push_back(part.start + i);
}

void StepInputs::add_wanted(const step::SequenceInput& part, int32_t first_token) {
  if (part.logits == step::LogitsWanted::kLast) {
    wanted_.push_back(first_token + part.count - 1);
  } else if (part.logits == step::LogitsWanted::kList) {
    for (const int32_t row : part.logits_rows) {
      KVERN_CHECK(row >= 0 && row < part.count, "sequence {}: row {} of {} is wanted",
                  part.seq.value, row, part.count);
      wanted_.push_back(first_token + row);
    }
  }
}

void StepInputs::add_pages(const step::SequenceInput& part, const kv::PageTable& table,
                           size_t group, const KvPoolView& pool) {
  const int64_t num_pages = ceil_div(int64_t{part.start} + part.count, pool.page_tokens);
  KVERN_CHECK(
      group < table.groups.size() && static_cast<int64_t>(table.groups[group].size()) >= num_pages,
      "sequence {} needs {} pages of KV group {}", part.seq.value, num_pages, group);
  const kv::GroupConfig config{pool.num_pages, pool.page_tokens, pool.window_tokens};
  const int64_t first_seen = config.first_page_seen(part.start);
  for (int64_t i = 0; i < num_pages; ++i) {
    const int32_t page = table.groups[group][static_cast<size_t>(i)].value;
    const bool seen = i >= first_seen;
    KVERN_CHECK(page < pool.num_pages && (page >= 0 || !seen), "sequence {}: page {} of {}",
                part.seq.value, page, pool.num_pages);
    page_table_[group].push_back(std::max(page, -1));
  }
  table_offset_[group].push_back(static_cast<int32_t>(page_table_[group].size()));
}

}  // namespace kvern::exec
