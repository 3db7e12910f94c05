#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

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

BpeMerger::BpeMerger(const TextModel& model, const TokenTable& table)
    : table_(table),
      bytes_(model.kind == TokenizerKind::kByteLevelBpe),
      byte_fallback_(model.byte_fallback),
      fuse_unk_(model.fuse_unk),
      ignore_merges_(model.ignore_merges),
      unk_id_(model.use_unk ? model.unk_id.value_or(-1) : -1) {
  byte_token_ids_.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string start = bytes_       ? byte_to_printable(static_cast<uint8_t>(byte))
                              : byte < 128 ? std::string(1, static_cast<char>(byte))
                                           : std::string();
    start_ids_[byte] = start.empty() ? -1 : table.find(start);
    if (byte_fallback_) byte_token_ids_[byte] = table.find(fmt::format("<0x{:02X}>", byte));
  }
  by_scores_ = model.merges.empty() && !model.scores.empty();
  if (by_scores_) {
    rank_scores(model);
  } else {
    add_merges(model);
  }
}

void BpeMerger::rank_scores(const TextModel& model) {
  std::vector<double> order;
  for (const double score : model.scores) order.push_back(score);
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  rank_of_.assign(model.tokens.size(), kNoRank);
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const TokenType type = model.token_types[i];
    if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    const auto found =
        std::lower_bound(order.begin(), order.end(), model.scores[i], std::greater<>());
    rank_of_[i] = static_cast<int32_t>(found - order.begin());
  }
}

void BpeMerger::add_merges(const TextModel& model) {
  const size_t num_slots = std::bit_ceil(2 * model.merges.size() + 2);
  slots_.resize(num_slots);
  shift_ = 64 - std::countr_zero(num_slots);
  std::string joined;
  for (size_t i = 0; i < model.merges.size(); ++i) {
    const Merge& merge = model.merges[i];
    joined.assign(model.tokens[merge.left]).append(model.tokens[merge.right]);
    const int32_t result = table_.find(joined);
    if (result < 0) {
      throw Error(
          Code::kInvalidModel,
          fmt::format("tokenizer: merge {} gives '{}', which the vocabulary lacks", i, joined));
    }
    add_rule(merge, {static_cast<int32_t>(i), result});
  }
}

void BpeMerger::add_rule(const Merge& merge, Rule rule) {
  const uint64_t key = pair_key(merge.left, merge.right);
  size_t at = spread(key) >> shift_;
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  if (slots_[at].key == kEmpty)
    slots_[at] = {key, rule};  // of a pair listed twice, the first counts
}

BpeMerger::Rule BpeMerger::rule_of_pair(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  for (size_t at = spread(key) >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].key == key) return slots_[at].rule;
    if (slots_[at].key == kEmpty) return {};
  }
}

BpeMerger::Rule BpeMerger::rule(std::string_view word, const Symbol& left,
                                const Symbol& right) const {
  if (!by_scores_) return rule_of_pair(left.id, right.id);
  const int32_t result = table_.find(word.substr(left.begin, right.end - left.begin));
  if (result < 0) return {};
  return {rank_of_[result], result};
}

void BpeMerger::forbid_cuts(MarkCuts& cuts) const {
  // A word that is a token as a whole must stay whole; an unknown mark joins its neighbours.
  if (bytes_ || ignore_merges_ || (unk_id_ >= 0 && table_.find(MarkCuts::kMark) < 0)) {
    return cuts.forbid_all();
  }
  if (by_scores_) {
    for (int32_t id = 0; id < table_.size(); ++id) {
      if (rank_of_[id] != kNoRank) cuts.forbid(table_.text(id));
    }
    return;
  }
  for (const Slot& slot : slots_) {
    if (slot.key != kEmpty) cuts.forbid(table_.text(slot.rule.result));
  }
}

int32_t BpeMerger::character_id(std::string_view character) const {
  if (character.size() == 1) return start_ids_[static_cast<uint8_t>(character[0])];
  return table_.find(character);
}

// Calls add(id, begin, end) for every byte or character, in order.
template <class Add>
void BpeMerger::start_symbols(std::string_view word, Add&& add) const {
  if (!bytes_) return start_characters(word, add);
  uint32_t unknown = 0;  // how many bytes await their unk_id
  for (uint32_t at = 0; at < word.size(); ++at) {
    const int32_t id = start_ids_[static_cast<uint8_t>(word[at])];
    if (id < 0) {
      if (unk_id_ >= 0 && (unknown++ == 0 || !fuse_unk_)) add(unk_id_, at, at + 1);
      continue;
    }
    unknown = 0;
    add(id, at, at + 1);
  }
}

template <class Add>
void BpeMerger::start_characters(std::string_view word, Add&& add) const {
  bool after_unknown = false;
  for (uint32_t at = 0; at < word.size();) {
    const CodePoint c = code_point_at(word, at);
    const uint32_t end = at + c.length_bytes;
    const std::string_view character = word.substr(at, c.length_bytes);
    const int32_t id = c.valid ? character_id(character) : -1;
    if (id >= 0 || by_scores_) {
      add(id, at, end);
      after_unknown = false;
    } else if (byte_fallback_ && std::ranges::all_of(character, [&](char b) {
                 return byte_token_ids_[static_cast<uint8_t>(b)] >= 0;
               })) {
      for (uint32_t i = at; i < end; ++i) {
        add(byte_token_ids_[static_cast<uint8_t>(word[i])], i, i + 1);
      }
    } else if (unk_id_ >= 0) {
      if (!(after_unknown && fuse_unk_)) add(unk_id_, at, end);
      after_unknown = true;
    }
    at = end;
  }
}

bool BpeMerger::add_byte_tokens(std::string_view bytes, std::vector<int32_t>& ids) const {
  if (!byte_fallback_) return false;
  const size_t first = ids.size();
  for (const char c : bytes) {
    const int32_t id = byte_token_ids_[static_cast<uint8_t>(c)];
    if (id < 0) {
      ids.resize(first);
      return false;
    }
    ids.push_back(id);
  }
  return true;
}

void BpeMerger::append_ids(std::string_view word, const Symbol* symbols, int count,
                           std::vector<int32_t>& ids) const {
  bool after_unknown = false;
  for (int i = 0; i < count; ++i) {
    const Symbol& symbol = symbols[i];
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
      after_unknown = false;
      continue;
    }
    if (add_byte_tokens(word.substr(symbol.begin, symbol.end - symbol.begin), ids)) continue;
    if (unk_id_ >= 0 && !(after_unknown && fuse_unk_)) ids.push_back(unk_id_);
    after_unknown = true;
  }
}

void BpeMerger::append(std::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    std::string printable;
    if (bytes_) {
      for (const char c : word) printable += byte_to_printable(static_cast<uint8_t>(c));
    }
    const int32_t id = table_.find(bytes_ ? std::string_view(printable) : word);
    if (id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  if (word.size() <= kShortWord) {
    Symbol symbols[kShortWord];
    int count = 0;
    start_symbols(word, [&](int32_t id, uint32_t begin, uint32_t end) {
      symbols[count++] = {id, begin, end};
    });
    merge_short(word, symbols, count, ids);
    return;
  }
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  start_symbols(word, [&](int32_t id, uint32_t begin, uint32_t end) {
    symbols.push_back({id, begin, end});
  });
  merge_long(word, symbols, ids);
}

void BpeMerger::merge_short(std::string_view word, Symbol* symbols, int count,
                            std::vector<int32_t>& ids) const {
  Rule rules[kShortWord];  // rules[i] joins symbols i and i + 1
  for (int i = 0; i + 1 < count; ++i) rules[i] = rule(word, symbols[i], symbols[i + 1]);
  while (count > 1) {
    int best = 0;
    for (int i = 1; i + 1 < count; ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == kNoRank) break;
    symbols[best].id = rules[best].result;
    symbols[best].end = symbols[best + 1].end;
    --count;
    for (int i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
    for (int i = best + 1; i + 1 < count; ++i) rules[i] = rules[i + 1];
    if (best > 0) rules[best - 1] = rule(word, symbols[best - 1], symbols[best]);
    if (best + 1 < count) rules[best] = rule(word, symbols[best], symbols[best + 1]);
  }
  append_ids(word, symbols, count, ids);
}

// O(n log n): a megabyte without a space must not take a minute. Entries of the heap may be out of
// date; one that no longer names the pair at its place is dropped.
void BpeMerger::merge_long(std::string_view word, std::vector<Symbol>& symbols,
                           std::vector<int32_t>& ids) const {
  const int count = static_cast<int>(symbols.size());
  std::vector<int> next(count);
  std::vector<int> previous(count);
  using Entry = std::tuple<int32_t, int, int32_t, uint32_t, uint32_t>;
  // rank, place, result, where the left symbol ended, where the right one does
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto offer = [&](int left) {
    const int right = next[left];
    if (right == count) return;
    const Rule found = rule(word, symbols[left], symbols[right]);
    if (found.rank != kNoRank) {
      queue.emplace(found.rank, left, found.result, symbols[left].end, symbols[right].end);
    }
  };
  for (int i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  std::vector<bool> gone(count, false);
  for (int i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const auto [rank, at, result, left_end, right_end] = queue.top();
    queue.pop();
    if (gone[at] || symbols[at].end != left_end) continue;
    const int right = next[at];
    if (right == count || symbols[right].end != right_end) continue;
    symbols[at].id = result;
    symbols[at].end = right_end;
    gone[right] = true;
    next[at] = next[right];
    if (next[at] < count) previous[next[at]] = at;
    if (previous[at] >= 0) offer(previous[at]);
    offer(at);
  }
  int kept = 0;
  for (int i = 0; i < count; i = next[i]) symbols[kept++] = symbols[i];
  append_ids(word, symbols.data(), kept, ids);
}

}  // namespace kvern::text
