#include "compile/passes/token_form/attention_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/cache_rows.h"
#include "compile/passes/token_form/mask.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

// Row or column `at` of the matrix `lead` of an array of matrices.
std::vector<Symbol> line(const ir::Array& array, int64_t lead, int64_t at, bool column) {
  const Shape& shape = array.shape();
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const Symbol* all = symbols(array).data() + lead * rows * columns;
  std::vector<Symbol> out;
  const int64_t count = column ? rows : columns;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(column ? all[i * columns + at] : all[at * columns + i]);
  }
  return out;
}

// Index over the leading dims of `shape` that broadcasts to index `lead` over those of `full`.
int64_t broadcast_lead(int64_t lead, const Shape& full, const Shape& shape) {
  const auto full_rank = static_cast<int64_t>(full.size()) - 2;
  const auto rank = static_cast<int64_t>(shape.size()) - 2;
  int64_t out = 0, stride = 1;
  for (int64_t i = 0; i < full_rank; ++i) {
    const int64_t dim = full[static_cast<size_t>(full_rank - 1 - i)];
    const int64_t at = lead % dim;
    lead /= dim;
    if (i >= rank) continue;
    const int64_t mine = shape[static_cast<size_t>(rank - 1 - i)];
    if (mine != 1) out += at * stride;
    stride *= mine;
  }
  return out;
}

constexpr double kMaxFarAngle = 2e-2;  // between two lists of one rotation, at the far end

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-5 * std::abs(a);
}

// The KV head that one query head reads.
struct Head {
  std::vector<int32_t> features;
  int32_t base = -1;
  double factor = 1;
  int64_t rotary = 0;
  bool interleaved = false;
  std::vector<int64_t> place;                   // of its elements in a row of the past
  std::map<int32_t, std::vector<Symbol>> rows;  // world 0, by token
};
using HeadMap = std::map<std::vector<int32_t>, Head>;  // by the query head's features

struct QueryRow {
  TurnedRow turned;
  std::vector<int64_t> key_positions;  // per column
  int32_t head = -1;
};

class Reader {
 public:
  Reader(Walk& walk, const ir::TensorNode& node, const Scores& scores, const View& v,
         const std::vector<Shape>& shapes)
      : walk_(walk),
        node_(node),
        scores_(scores),
        product_(*scores.product),
        v_(v),
        shapes_(shapes) {}

  AttentionReading read() {
    for (size_t world = 0; world < walk_.num_layout; ++world) read_world(world);
    order_heads();
    find_rotation();
    note_rows();
    read_sinks();
    prove_mask();
    return std::move(out_);
  }

 private:
  using RowCache = std::map<std::pair<int64_t, int64_t>, CacheRow>;

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(Code::kUnsupported, fmt::format("onnx: {}: this attention cannot become paged: {}",
                                                node_.who(), problem));
  }

  int64_t position_of(size_t world, int32_t token) const {
    const World& w = walk_.worlds[world];
    return w.past + token % w.tokens;
  }

  TurnedRow decode_query(const std::vector<Symbol>& row) const {
    std::string why;
    std::optional<TurnedRow> out = decode_row(walk_, row, &why);
    if (!out) refuse(fmt::format("a row of queries: {}", why));
    return std::move(*out);
  }

  const CacheRow& cache_row(RowCache& known_rows, size_t world, const ir::Array& array,
                            int64_t lead, int64_t at, bool is_key) const {
    const auto key = std::pair(lead, at);
    const auto found = known_rows.find(key);
    if (found != known_rows.end()) return found->second;
    std::string why;
    std::optional<CacheRow> row = decode_cache_row(walk_, world, line(array, lead, at, is_key),
                                                   is_key ? "keys" : "values", &why);
    if (!row) refuse(why);
    return known_rows.emplace(key, std::move(*row)).first->second;
  }

  void read_world(size_t world) {
    const ir::Array& elements = scores_.elements[world];
    if (elements.rank() < 2) refuse("its scores have no rows");
    RowCache keys, values;
    const int64_t columns = std::max<int64_t>(elements.shape().back(), 1);
    queries_.emplace_back();
    for (int64_t row = 0; row < elements.count() / columns; ++row) {
      queries_.back().push_back(read_row(world, row, keys, values));
    }
  }

  // One row of the scores: a query, and key and value of each column.
  QueryRow read_row(size_t world, int64_t row, RowCache& keys, RowCache& values) {
    const Shape& full = product_.shapes[world];
    const Shape& shape = scores_.elements[world].shape();
    const ir::Array& q = product_.q[world];
    const ir::Array& k = product_.k[world];
    const ir::Array& v = v_.elements[world];
    const int64_t columns = shape.back(), lead = row / shape[shape.size() - 2];
    const int64_t full_rows = full[full.size() - 2], full_columns = full.back();
    const Symbol* scores = symbols(scores_.elements[world]).data() + row * columns;
    QueryRow out;
    std::pair<int64_t, int64_t> source;
    for (int64_t j = 0; j < columns; ++j) {
      if (scores[j].base[0] < 0 || scores[j].base[1] != kNothing) {
        refuse("its scores are mixed with constants or with each other before softmax");
      }
      const int64_t index = scores[j].index[0];
      const int64_t at_lead = index / (full_rows * full_columns);
      const int64_t at_row = index / full_columns % full_rows;
      if (j == 0) {
        source = {at_lead, at_row};
        out.turned = decode_query(line(q, broadcast_lead(at_lead, full, q.shape()), at_row, false));
        note_query(world, out.turned);
      } else if (std::pair(at_lead, at_row) != source) {
        refuse("a row of its scores belongs to several queries");
      }
      const CacheRow& key = cache_row(keys, world, k, broadcast_lead(at_lead, full, k.shape()),
                                      index % full_columns, true);
      const CacheRow& value =
          cache_row(values, world, v, broadcast_lead(lead, shape, v.shape()), j, false);
      check_pair(world, out.turned, key, value);
      out.key_positions.push_back(key.position);
      note_cache_row(world, key, key_heads_[out.turned.features], out_.k);
      note_cache_row(world, value, value_heads_[out.turned.features], out_.v);
    }
    return out;
  }

  void check_pair(size_t world, const TurnedRow& query, const CacheRow& key,
                  const CacheRow& value) const {
    if (key.position < 0 && value.position < 0) return;
    if (key.position != value.position || key.is_past != value.is_past ||
        key.batch != value.batch) {
      refuse(
          fmt::format("column for column its keys and values belong to different tokens: "
                      "position {} and {}",
                      key.position, value.position));
    }
    if (key.batch != query.token / walk_.worlds[world].tokens) {
      refuse("a sequence of the batch reads the keys of another one");
    }
  }

  void note_cache_row(size_t world, const CacheRow& row, Head& head, CacheSide& side) {
    if (row.position < 0) return;
    if (row.is_past) {
      if (side.past >= 0 && side.past != row.past) {
        refuse(
            fmt::format("it reads two caches, '{}' and '{}'", origin(side.past), origin(row.past)));
      }
      if (side.past >= 0 && !near(side.past_factor, row.factor)) {
        refuse("it reads rows of a cache times different numbers");
      }
      side.past = row.past;
      side.past_factor = row.factor;
      if (head.place.empty()) head.place = row.place;
      if (head.place != row.place) refuse("cached rows lie in different places by position");
      return;
    }
    if (head.features.empty()) {
      head.features = row.fresh.features;
      head.base = row.fresh.base;
      head.factor = row.fresh.factor;
      head.rotary = row.fresh.rotary_dim;
      head.interleaved = row.fresh.interleaved;
    }
    if (head.features != row.fresh.features || head.base != row.fresh.base ||
        head.rotary != row.fresh.rotary_dim || !near(head.factor, row.fresh.factor)) {
      refuse("new tokens reach the cache in different ways");
    }
    if (world == 0) head.rows[row.fresh.token] = row.symbols;
    note_angles(row.position, row.fresh);
  }

  void note_query(size_t world, const TurnedRow& row) {
    if (out_.q_base < 0) {
      out_.q_base = row.base;
      out_.rotary_dim = row.rotary_dim;
      out_.interleaved = row.interleaved;
      out_.dim_k = static_cast<int64_t>(row.features.size());
      q_factor_ = row.factor;
    }
    if (row.base != out_.q_base || row.rotary_dim != out_.rotary_dim ||
        row.interleaved != out_.interleaved || !near(row.factor, q_factor_)) {
      refuse(row.base != out_.q_base
                 ? "its query heads come out of different nodes (each of a norm of its own, say), "
                   "which is not supported yet"
                 : "its query heads are not rotated or scaled alike, which is not supported yet");
    }
    note_angles(position_of(world, row.token), row);
  }

  void note_angles(int64_t position, const TurnedRow& row) {
    if (row.rotary_dim == 0 || angles_.add(position, row.angles)) return;
    refuse(fmt::format("position {} is rotated by two different angles", position));
  }

  const std::string& origin(int32_t base) const {
    return walk_.emit.bases[static_cast<size_t>(base)].origin;
  }

  // KV heads in the order of their features.
  void gather_side(const HeadMap& heads, CacheSide& side, const char* what) const {
    std::vector<const Head*> distinct;
    for (const auto& [query, head] : heads) {
      if (head.features.empty()) refuse(fmt::format("no new token joins its {}s", what));
      const bool seen = std::any_of(distinct.begin(), distinct.end(), [&](const Head* h) {
        return h->features == head.features && h->base == head.base && h->factor == head.factor &&
               h->rotary == head.rotary && h->interleaved == head.interleaved;
      });
      if (!seen) distinct.push_back(&head);
    }
    std::sort(distinct.begin(), distinct.end(),
              [](const Head* a, const Head* b) { return a->features < b->features; });
    side.fresh.base = distinct[0]->base;
    side.fresh.factor = {1.0f};
    side.fresh_factor = distinct[0]->factor;
    side.dim = static_cast<int64_t>(distinct[0]->features.size());
    side.rows.emplace_back();
    for (const Head* head : distinct) {
      const Head& first = *distinct[0];
      if (head->base != side.fresh.base || head->rotary != first.rotary ||
          head->interleaved != first.interleaved || !near(head->factor, first.factor) ||
          static_cast<int64_t>(head->features.size()) != side.dim) {
        refuse(fmt::format("its {} heads {}, which is not supported yet", what,
                           head->base != side.fresh.base
                               ? "come out of different nodes (each of a norm of its own, say)"
                               : "are not of one size, rotated and scaled alike"));
      }
      side.fresh.index.insert(side.fresh.index.end(), head->features.begin(), head->features.end());
      side.place.push_back(head->place);
      for (const auto& [token, row] : head->rows) {
        side.rows[0].insert(side.rows[0].end(), row.begin(), row.end());
      }
    }
  }

  // Query heads share KV heads in neighbouring runs of equal length.
  void check_groups(const HeadMap& heads, const CacheSide& side, const char* what) const {
    const size_t group = out_.q_features.size() / side.place.size();
    for (size_t h = 0; h < out_.q_features.size(); ++h) {
      const std::vector<int32_t>& features = heads.at(out_.q_features[h]).features;
      const auto begin = side.fresh.index.begin() + static_cast<ptrdiff_t>(h / group) * side.dim;
      if (std::equal(features.begin(), features.end(), begin)) continue;
      refuse(
          fmt::format("query head {} does not read {} head {}: heads must share in neighbouring "
                      "runs",
                      h, what, h / group));
    }
  }

  void order_heads() {
    for (const auto& [features, head] : key_heads_) out_.q_features.push_back(features);
    if (out_.q_features.empty()) refuse("it has no rows");
    gather_side(key_heads_, out_.k, "key");
    gather_side(value_heads_, out_.v, "value");
    out_.dim_v = out_.v.dim;
    const size_t kv_heads = out_.k.place.size();
    if (out_.v.place.size() != kv_heads || out_.q_features.size() % kv_heads != 0) {
      refuse(fmt::format("{} query heads read {} key heads and {} value heads",
                         out_.q_features.size(), kv_heads, out_.v.place.size()));
    }
    check_groups(key_heads_, out_.k, "key");
    check_groups(value_heads_, out_.v, "value");
  }

  void find_rotation() {
    const Head& key = key_heads_.begin()->second;
    const Head& value = value_heads_.begin()->second;
    if (key.rotary != out_.rotary_dim || key.interleaved != out_.interleaved) {
      refuse("queries and keys are rotated in different ways");
    }
    if (value.rotary != 0) refuse("its values are rotated");
    out_.scale = scores_.factor * q_factor_ * key.factor;
    out_.v_factor = value.factor;
    if (out_.rotary_dim == 0) return;
    std::string why;
    const std::vector<std::vector<double>> far = far_frequencies(key.base);
    out_.frequencies = angles_.frequencies(far.empty() ? walk_.frequency_candidates : far, &why);
    if (out_.frequencies.empty()) refuse(why);
    out_.measured = why == "measured";
    for (const std::vector<double>& other : far) require_near(other);
  }

  // Those that turn far tokens of queries and keys; none where their tables say all positions.
  std::vector<std::vector<double>> far_frequencies(int32_t key_base) const {
    std::vector<std::vector<double>> out;
    for (const int32_t base : {out_.q_base, key_base}) {
      const auto found = walk_.turned_by.find(base);
      if (found != walk_.turned_by.end()) {
        out.insert(out.end(), found->second.begin(), found->second.end());
      }
    }
    return out;
  }

  void require_near(const std::vector<double>& other) const {
    double length = 0, away = other.size() == out_.frequencies.size() ? 0 : INFINITY;
    for (const World& w : walk_.worlds) length = std::max(length, static_cast<double>(w.total()));
    for (size_t i = 0; i < other.size() && std::isfinite(away); ++i) {
      away = std::max(away, length * std::abs(other[i] - out_.frequencies[i]));
    }
    if (away <= kMaxFarAngle) return;
    refuse("its first tokens are turned by other frequencies than its far ones");
  }

  void note_rows() {
    for (auto& world : queries_) {
      out_.rows.emplace_back();
      for (QueryRow& query : world) {
        const auto at =
            std::lower_bound(out_.q_features.begin(), out_.q_features.end(), query.turned.features);
        query.head = static_cast<int32_t>(at - out_.q_features.begin());
        out_.rows.back().emplace_back(query.turned.token, query.head);
      }
    }
  }

  // Each head has one, whatever the token.
  void read_sinks() {
    if (scores_.sinks.empty()) return;
    out_.sinks.assign(out_.q_features.size(), 0.0);
    std::vector<bool> seen(out_.q_features.size(), false);
    for (size_t world = 0; world < walk_.num_layout; ++world) {
      Shape shape = shapes_[world];
      shape.back() = 1;
      const std::vector<float> values = broadcast(scores_.sinks[world], shape).to_f32();
      for (size_t row = 0; row < values.size(); ++row) {
        const auto head = static_cast<size_t>(queries_[world][row].head);
        if (seen[head] && out_.sinks[head] != values[row]) {
          refuse(fmt::format("its sinks differ from token to token of head {}", head));
        }
        seen[head] = true;
        out_.sinks[head] = values[row];
      }
    }
  }

  void prove_mask() {
    const Shape& shape = shapes_[0];
    const int64_t rows = shape[shape.size() - 2];
    if (rows > walk_.worlds[0].tokens && queries_[0].size() > 1) {
      heads_lie_inside_ = queries_[0][0].turned.token == queries_[0][1].turned.token;
    }
    MaskProof proof(static_cast<int64_t>(out_.q_features.size()));
    for (size_t world = 0; world < walk_.worlds.size(); ++world) prove_world(world, proof);
    out_.window = proof.window();
    out_.longest = proof.longest();
    out_.slopes = proof.slopes();
  }

  void prove_world(size_t world, MaskProof& proof) const {
    const World& w = walk_.worlds[world];
    const Shape& shape = shapes_[world];
    const int64_t columns = shape.back(), tokens = shape[shape.size() - 2];
    const auto heads = static_cast<int64_t>(out_.q_features.size());
    std::vector<float> values(static_cast<size_t>(tokens * columns), 0.0f);
    if (!scores_.bias.empty()) {
      values = broadcast(scores_.bias[world], w.layout ? shape : bias_shape(world)).to_f32();
    }
    std::vector<int64_t> by_column(static_cast<size_t>(columns));
    for (int64_t j = 0; j < columns; ++j) by_column[static_cast<size_t>(j)] = j;
    const auto mask_rows = static_cast<int64_t>(values.size()) / columns;
    const auto rows = w.layout ? static_cast<int64_t>(queries_[world].size()) : mask_rows;
    const int64_t group = std::max<int64_t>(tokens / std::max<int64_t>(w.tokens, 1), 1);
    for (int64_t row = 0; row < rows; ++row) {
      // Outside of layout worlds sequences are alike; the mask has a row per token or per head
      // and token.
      int64_t head = mask_rows == tokens * heads ? row / tokens : -1;
      int64_t position =
          w.past + (heads_lie_inside_ ? row % tokens / group : row % tokens % w.tokens);
      std::span<const int64_t> keys = by_column;
      if (w.layout) {
        const QueryRow& query = queries_[world][static_cast<size_t>(row)];
        head = query.head;
        position = position_of(world, query.turned.token);
        keys = query.key_positions;
      }
      const auto at = static_cast<size_t>(row % mask_rows * columns);
      if (proof.add_row(head, position, keys,
                        std::span(values).subspan(at, static_cast<size_t>(columns)))) {
        continue;
      }
      refuse(fmt::format("its mask (batch {}, {} tokens after {}): {}", w.batch, w.tokens, w.past,
                         proof.why()));
    }
  }

  // Of long worlds no more heads than the mask has.
  Shape bias_shape(size_t world) const {
    const Shape& full = shapes_[world];
    Shape out = scores_.bias[world].shape();
    while (out.size() < 2) out.insert(out.begin(), 1);
    out.back() = full.back();
    out[out.size() - 2] = full[full.size() - 2];
    return out;
  }

  Walk& walk_;
  const ir::TensorNode& node_;
  const Scores& scores_;
  const Product& product_;
  const View& v_;
  const std::vector<Shape>& shapes_;
  HeadMap key_heads_, value_heads_;
  AngleTable angles_;
  // Rows of one matrix of scores are [token][head] where several heads share it, else
  // [head][token].
  bool heads_lie_inside_ = true;
  double q_factor_ = 1;
  std::vector<std::vector<QueryRow>> queries_;  // per layout world
  AttentionReading out_;
};

}  // namespace

AttentionReading read_attention(Walk& walk, const ir::TensorNode& node, const Scores& scores,
                                const View& v, const std::vector<Shape>& shapes) {
  return Reader(walk, node, scores, v, shapes).read();
}

}  // namespace kvern::passes::token_form
