// Sequences with K, V and queries for every position, and pages to put them in. A test runs them in
// any order of steps and looks at what each position got.
#pragma once

#include <algorithm>

#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "tests/kernels/place_slot.h"
#include "tests/kernels/run_op.h"

namespace kvern::testing {

// What one sequence does in one step.
struct Turn {
  int32_t sequence;
  int64_t start, count;
};

class KvWorld {
 public:
  KvWorld(const kernels::KvSlotDesc& slot, int32_t heads, std::vector<int64_t> lengths)
      : slot_(slot), heads_(heads), lengths_(std::move(lengths)) {
    int64_t total = 0;
    int32_t num_pages = 1;
    for (const int64_t length : lengths_) {
      first_row_.push_back(total);
      total += length;
      num_pages += static_cast<int32_t>((length + slot.page_tokens - 1) / slot.page_tokens);
    }
    q = Rows::random(total, int64_t{heads} * slot.dim_k, 1);
    k = Rows::random(total, int64_t{slot.kv_heads} * slot.dim_k, 2);
    v = Rows::random(total, int64_t{slot.kv_heads} * slot.dim_v, 3);
    pool_.resize(static_cast<size_t>(num_pages * slot.page_bytes));
    std::vector<int32_t> ids(static_cast<size_t>(num_pages));
    for (int32_t i = 0; i < num_pages; ++i) ids[i] = i;
    std::shuffle(ids.begin(), ids.end(), std::mt19937(4));
    for (const int64_t length : lengths_) {
      const int64_t count = (length + slot.page_tokens - 1) / slot.page_tokens;
      tables.emplace_back(ids.end() - count, ids.end());
      ids.resize(ids.size() - static_cast<size_t>(count));
    }
    wipe();
  }

  // Fills every page with bytes that are NaN in every float format.
  void wipe() { std::fill(pool_.begin(), pool_.end(), std::byte{0xff}); }

  const std::vector<int64_t>& lengths() const { return lengths_; }
  std::vector<std::byte>& pool() { return pool_; }
  const kernels::KvSlotDesc& slot() const { return slot_; }
  int64_t row_of(int32_t sequence, int64_t position) const {
    return first_row_[sequence] + position;
  }
  const std::byte* page(int32_t sequence, int64_t position) const {
    const auto& table = tables[static_cast<size_t>(sequence)];
    return pool_.data() + table[position / slot_.page_tokens] * slot_.page_bytes;
  }

  // One step: gathers the rows of the turns, calls fn(view, rows) where rows[i] is the row of
  // q, k, v that is row i of the step.
  template <class Fn>
  void step(const std::vector<Turn>& turns, const Fn& fn) {
    std::vector<int32_t> token_offset = {0}, context_start, table, table_offset = {0};
    std::vector<int64_t> rows;
    for (const Turn& turn : turns) {
      for (int64_t i = 0; i < turn.count; ++i) {
        rows.push_back(row_of(turn.sequence, turn.start + i));
      }
      token_offset.push_back(static_cast<int32_t>(rows.size()));
      context_start.push_back(static_cast<int32_t>(turn.start));
      const auto& own = tables[static_cast<size_t>(turn.sequence)];
      table.insert(table.end(), own.begin(), own.end());
      table_offset.push_back(static_cast<int32_t>(table.size()));
    }
    const kernels::KvPages pages{
        pool_.data(),      slot_.page_bytes,
        slot_.page_tokens, static_cast<int32_t>(pool_.size() / slot_.page_bytes),
        table.data(),      table_offset.data()};
    const kernels::StepView view{static_cast<int32_t>(rows.size()),
                                 static_cast<int32_t>(turns.size()),
                                 token_offset.data(),
                                 context_start.data(),
                                 {&pages, 1}};
    fn(view, rows);
  }

  static Rows pick(const Rows& from, const std::vector<int64_t>& rows) {
    Rows out(static_cast<int64_t>(rows.size()), from.dim, std::numeric_limits<float>::quiet_NaN());
    for (size_t r = 0; r < rows.size(); ++r) {
      for (int64_t i = 0; i < from.dim; ++i) {
        out.at(static_cast<int64_t>(r), i) = from.at(rows[r], i);
      }
    }
    return out;
  }

  Rows q{0, 0, 0.0f}, k{0, 0, 0.0f}, v{0, 0, 0.0f};
  std::vector<std::vector<int32_t>> tables;  // by sequence

 private:
  kernels::KvSlotDesc slot_;
  int32_t heads_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> first_row_;
  std::vector<std::byte> pool_;
};

// Steps in which every sequence takes at most `chunk` tokens.
inline std::vector<std::vector<Turn>> chunked(const std::vector<int64_t>& lengths, int64_t chunk) {
  std::vector<std::vector<Turn>> steps;
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (int64_t start = 0; start < longest; start += chunk) {
    std::vector<Turn> turns;
    for (size_t s = 0; s < lengths.size(); ++s) {
      if (start >= lengths[s]) continue;
      turns.push_back({static_cast<int32_t>(s), start, std::min(chunk, lengths[s] - start)});
    }
    steps.push_back(turns);
  }
  return steps;
}

}  // namespace kvern::testing
