#include "text/unigram.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/unicode.h"

namespace kvern::text {
namespace {

// How much worse than the worst piece an unknown character is.
constexpr double kUnknownPenalty = 10.0;

size_t total_bytes(const TextModel& model) {
  size_t bytes = 0;
  for (const std::string& token : model.tokens) bytes += token.size();
  return bytes;
}

}  // namespace

UnigramSegmenter::UnigramSegmenter(const TextModel& model, const TokenTable& table)
    : table_(table),
      trie_(total_bytes(model)),
      scores_(model.scores),
      unk_id_(model.use_unk ? model.unk_id.value_or(-1) : -1),
      byte_fallback_(model.byte_fallback),
      fuse_unk_(model.fuse_unk) {
  double lowest = 0;
  bool any = false;
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const TokenType type = model.token_types[i];
    if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    lowest = any ? std::min(lowest, scores_[i]) : scores_[i];
    any = true;
    if (!model.tokens[i].empty()) trie_.insert(model.tokens[i], static_cast<int32_t>(i));
  }
  unknown_score_ = lowest - kUnknownPenalty;
  byte_token_ids_.fill(-1);
  for (int byte = 0; byte < 256 && byte_fallback_; ++byte) {
    byte_token_ids_[byte] = table.find(fmt::format("<0x{:02X}>", byte));
  }
}

void UnigramSegmenter::forbid_cuts(MarkCuts& cuts) const {
  // An unknown mark joins its neighbours.
  if (table_.find(MarkCuts::kMark) < 0) return cuts.forbid_all();
  for (int32_t id = 0; id < table_.size(); ++id) cuts.forbid(table_.text(id));
}

// Every piece that begins at `at`, and the unknown character where no piece is just that long.
void UnigramSegmenter::extend(std::string_view word, uint32_t at, std::vector<Node>& nodes) const {
  const double score = nodes[at].score;
  const uint32_t character_end = at + code_point_at(word, at).length_bytes;
  bool has_character = false;
  const auto offer = [&](uint32_t end, double candidate, int32_t id) {
    Node& node = nodes[end];
    if (!node.reached || candidate > node.score) node = {candidate, at, id, true};
  };
  uint32_t node = ByteTrie::kRoot;
  for (uint32_t end = at; end < word.size();) {
    node = trie_.child(node, static_cast<uint8_t>(word[end++]));
    if (node == ByteTrie::kNoNode) break;
    const int32_t id = trie_.value(node);
    if (id < 0) continue;
    offer(end, scores_[id] + score, id);
    has_character |= end == character_end;
  }
  if (!has_character) offer(character_end, unknown_score_ + score, -1);
}

void UnigramSegmenter::append_piece(std::string_view piece, int32_t id,
                                    std::vector<int32_t>& ids) const {
  if (id >= 0) {
    ids.push_back(id);
    return;
  }
  if (byte_fallback_ && std::ranges::all_of(piece, [&](char c) {
        return byte_token_ids_[static_cast<uint8_t>(c)] >= 0;
      })) {
    for (const char c : piece) ids.push_back(byte_token_ids_[static_cast<uint8_t>(c)]);
    return;
  }
  if (unk_id_ >= 0) ids.push_back(unk_id_);
}

void UnigramSegmenter::append(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<Node> nodes(word.size() + 1);
  for (uint32_t at = 0; at < word.size(); at += code_point_at(word, at).length_bytes) {
    extend(word, at, nodes);
  }
  struct Piece {
    uint32_t begin;
    uint32_t end;
    int32_t id;
  };
  std::vector<Piece> pieces;  // last first
  for (auto end = static_cast<uint32_t>(word.size()); end > 0;) {
    const Node& node = nodes[end];
    if (node.id < 0 && fuse_unk_ && !pieces.empty() && pieces.back().id < 0) {
      pieces.back().begin = node.begin;
    } else {
      pieces.push_back({node.begin, end, node.id});
    }
    end = node.begin;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    append_piece(word.substr(piece->begin, piece->end - piece->begin), piece->id, ids);
  }
}

}  // namespace kvern::text
