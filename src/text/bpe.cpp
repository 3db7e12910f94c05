#include "text/bpe.h"

#include <fmt/format.h>

#include <bit>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "kvern/error.h"
#include "text/unicode.h"

namespace kvern::text {
namespace {

// Below this a scan over all pairs per merge beats a heap.
constexpr size_t kShortWord = 32;

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

uint64_t spread(uint64_t key) {
  return key * 0x9E3779B97F4A7C15u;
}

}  // namespace

BpeMerger::BpeMerger(const TextModel& model) {
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(model.tokens.size());
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    ids.emplace(model.tokens[i], static_cast<int32_t>(i));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(byte_to_printable(static_cast<uint8_t>(byte)));
    byte_ids_[byte] = found == ids.end() ? -1 : found->second;
  }
  const size_t num_slots = std::bit_ceil(2 * model.merges.size() + 2);
  slots_.resize(num_slots);
  shift_ = 64 - std::countr_zero(num_slots);
  std::string joined;
  for (size_t i = 0; i < model.merges.size(); ++i) {
    const Merge& merge = model.merges[i];
    joined.assign(model.tokens[merge.left]).append(model.tokens[merge.right]);
    const auto found = ids.find(joined);
    if (found == ids.end()) {
      throw Error(
          Code::kInvalidModel,
          fmt::format("tokenizer: merge {} gives '{}', which the vocabulary lacks", i, joined));
    }
    add_rule(merge, {static_cast<int32_t>(i), found->second});
  }
}

void BpeMerger::add_rule(const Merge& merge, Rule rule) {
  const uint64_t key = pair_key(merge.left, merge.right);
  size_t at = spread(key) >> shift_;
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  if (slots_[at].key == kEmpty)
    slots_[at] = {key, rule};  // of a pair listed twice, the first counts
}

BpeMerger::Rule BpeMerger::rule(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  for (size_t at = spread(key) >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].key == key) return slots_[at].rule;
    if (slots_[at].key == kEmpty) return {};
  }
}

void BpeMerger::append(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.size() <= kShortWord) {
    int32_t symbols[kShortWord];
    int count = 0;
    for (const char c : word) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
      if (id >= 0) symbols[count++] = id;
    }
    merge_short(symbols, count, ids);
    return;
  }
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols.push_back(id);
  }
  merge_long(symbols, ids);
}

void BpeMerger::merge_short(int32_t* symbols, int count, std::vector<int32_t>& ids) const {
  Rule rules[kShortWord];  // rules[i] joins symbols i and i + 1
  for (int i = 0; i + 1 < count; ++i) rules[i] = rule(symbols[i], symbols[i + 1]);
  while (count > 1) {
    int best = 0;
    for (int i = 1; i + 1 < count; ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == kNoRank) break;
    symbols[best] = rules[best].result;
    --count;
    for (int i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
    for (int i = best + 1; i + 1 < count; ++i) rules[i] = rules[i + 1];
    if (best > 0) rules[best - 1] = rule(symbols[best - 1], symbols[best]);
    if (best + 1 < count) rules[best] = rule(symbols[best], symbols[best + 1]);
  }
  ids.insert(ids.end(), symbols, symbols + count);
}

// O(n log n): a megabyte without a space must not take a minute. Entries of the heap may be out of
// date; one that no longer names the pair at its place is dropped.
void BpeMerger::merge_long(std::vector<int32_t>& symbols, std::vector<int32_t>& ids) const {
  const int count = static_cast<int>(symbols.size());
  std::vector<int> next(count);
  std::vector<int> previous(count);
  using Entry = std::tuple<int32_t, int, int32_t, int32_t>;  // rank, place, left, right
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto offer = [&](int left) {
    const int right = next[left];
    if (right == count) return;
    const Rule found = rule(symbols[left], symbols[right]);
    if (found.rank != kNoRank) queue.emplace(found.rank, left, symbols[left], symbols[right]);
  };
  for (int i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  for (int i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const auto [rank, at, left, right] = queue.top();
    queue.pop();
    if (symbols[at] != left || next[at] == count || symbols[next[at]] != right) continue;
    symbols[at] = rule(left, right).result;
    const int gone = next[at];
    symbols[gone] = -1;
    next[at] = next[gone];
    if (next[at] < count) previous[next[at]] = at;
    if (previous[at] >= 0) offer(previous[at]);
    offer(at);
  }
  for (int i = 0; i < count; i = next[i]) ids.push_back(symbols[i]);
}

}  // namespace kvern::text
