#include "compile/passes/token_form/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "compile/passes/token_form/mask.h"
#include "compile/passes/token_form/rotation.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;

[[noreturn]] void refuse(const ir::TensorNode& node, const std::string& problem) {
  throw Error(Code::kUnsupported,
              fmt::format("onnx: {}: this attention cannot become paged: {}", node.who(), problem));
}

// Elements of one row or column of a product's operand.
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

// A key or value row: of the past, or of a new token.
struct CacheRow {
  bool is_past = false;
  int32_t past = -1;  // base
  int64_t batch = 0;
  int64_t position = 0;
  std::vector<int64_t> place;  // of a past row, per element
  double factor = 1;
  TurnedRow fresh;  // of a new token
  std::vector<Symbol> symbols;
};

struct PastPlace {
  int64_t batch, position, place;
};
PastPlace past_place(const Base& base, const Shape& shape, int64_t batch_size, int64_t index) {
  PastPlace out{0, 0, 0};
  std::vector<int64_t> at(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    at[i] = index % shape[i];
    index /= shape[i];
  }
  int64_t place = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    if (axis == base.length_axis) {
      out.position = at[i];
    } else if (axis == base.batch_axis) {
      const int64_t each = shape[i] / batch_size;  // above 1 where heads are folded in
      out.batch = at[i] / each;
      place = place * each + at[i] % each;
    } else {
      place = place * shape[i] + at[i];
    }
  }
  out.place = place;
  return out;
}

// Walks one attention in all layout worlds and collects what it is.
class Reader {
 public:
  Reader(Walk& walk, const ir::TensorNode& node, const Scores& scores, const View& v,
         const std::vector<Shape>& shapes)
      : walk_(walk),
        node_(node),
        scores_(scores),
        product_(walk.products.at(static_cast<size_t>(scores.product))),
        v_(v),
        shapes_(shapes) {}

  void read() {
    for (size_t world = 0; world < walk_.num_layout; ++world) read_world(world);
    order_heads();
    prove_mask();
  }

  // What was found.
  std::vector<std::vector<int32_t>> q_features;  // per head
  int32_t q_base = -1, dim_k = 0, dim_v = 0;
  CacheSide k, v;
  std::vector<int64_t> kv_of_head;
  int64_t rotary_dim = 0;
  bool interleaved = false;
  std::vector<double> frequencies;
  double scale = 1;
  int64_t window = 0, longest = 0;
  std::vector<double> slopes;
  // Per layout world, per row of the output: token and head.
  std::vector<std::vector<std::pair<int32_t, int32_t>>> rows;

 private:
  struct QueryRow {
    TurnedRow turned;
    std::vector<int64_t> key_positions;  // per column
    int32_t head = -1;
  };

  int64_t tokens(size_t world) const { return walk_.worlds[world].tokens; }
  int64_t position_of(size_t world, int32_t token) const {
    const World& w = walk_.worlds[world];
    return w.past + token % w.tokens;
  }

  TurnedRow decode(std::span<const Symbol> row, const char* what) {
    std::string why;
    std::optional<TurnedRow> out = decode_row(walk_, row, &why);
    if (!out) refuse(node_, fmt::format("a row of {}: {}", what, why));
    return std::move(*out);
  }

  CacheRow decode_cache(size_t world, std::vector<Symbol> row, const char* what) {
    CacheRow out;
    if (row[0].base[0] < 0) {
      out.position = -1;  // constants: a row that no token wrote
      return out;
    }
    const Base& base = walk_.emit.bases[static_cast<size_t>(row[0].base[0])];
    if (base.kind != Base::Kind::kPast) {
      if (base.kind != Base::Kind::kToken)
        refuse(node_, fmt::format("{} are no activations", what));
      out.fresh = decode(row, what);
      out.batch = out.fresh.token / tokens(world);
      out.position = position_of(world, out.fresh.token);
      out.symbols = std::move(row);
      return out;
    }
    out.is_past = true;
    out.past = row[0].base[0];
    out.factor = row[0].factor[0];
    for (size_t d = 0; d < row.size(); ++d) {
      const Symbol& s = row[d];
      if (s.base[0] != out.past || s.base[1] != kNothing || s.factor[0] != row[0].factor[0]) {
        refuse(node_, fmt::format("cached {} are changed after the cache (rotation behind the "
                                  "cache, or several caches in one row); keep what attention "
                                  "reads in the cache",
                                  what));
      }
      const PastPlace at =
          past_place(base, base.past_shapes.at(world), walk_.worlds[world].batch, s.index[0]);
      if (d == 0) {
        out.batch = at.batch;
        out.position = at.position;
      }
      if (at.batch != out.batch || at.position != out.position) {
        refuse(node_, fmt::format("a row of {} mixes positions of the cache", what));
      }
      out.place.push_back(at.place);
    }
    return out;
  }

  void read_world(size_t world) {
    const Shape& full = product_.shapes[world];
    const ir::Array& elements = scores_.elements[world];
    const Shape& shape = elements.shape();
    if (shape.size() < 2) refuse(node_, "its scores have no rows");
    const int64_t columns = shape.back(),
                  count = num_elements(shape) / std::max<int64_t>(columns, 1);
    const int64_t rows_each = shape[shape.size() - 2];
    const ir::Array& v = v_.elements[world];
    const int64_t full_columns = full.back(), full_rows = full[full.size() - 2];
    std::vector<QueryRow> found;
    // Rows of K and V are decoded once each.
    std::map<std::pair<int64_t, int64_t>, CacheRow> keys, values;
    for (int64_t row = 0; row < count; ++row) {
      QueryRow query;
      const Symbol* line_of = symbols(elements).data() + row * columns;
      const int64_t lead = row / rows_each;
      const CacheRow* first_key = nullptr;
      for (int64_t j = 0; j < columns; ++j) {
        if (line_of[j].base[0] < 0 || line_of[j].base[1] != kNothing) {
          refuse(node_, "its scores are mixed with constants or with each other before softmax");
        }
        const int64_t index = line_of[j].index[0];
        const int64_t at_lead = index / (full_rows * full_columns);
        const int64_t at_row = index / full_columns % full_rows;
        const int64_t at_column = index % full_columns;
        if (j == 0) {
          query.turned =
              decode(line(product_.q[world],
                          broadcast_lead(at_lead, full, product_.q[world].shape()), at_row, false),
                     "queries");
          row_source_ = {at_lead, at_row};
        }
        if (std::pair(at_lead, at_row) != row_source_) {
          refuse(node_, "a row of its scores belongs to several queries");
        }
        const int64_t k_lead = broadcast_lead(at_lead, full, product_.k[world].shape());
        const int64_t v_lead = broadcast_lead(lead, shape, v.shape());
        CacheRow& key = once(keys, {k_lead, at_column}, [&] {
          return decode_cache(world, line(product_.k[world], k_lead, at_column, true), "keys");
        });
        CacheRow& value = once(values, {v_lead, j}, [&] {
          return decode_cache(world, line(v, v_lead, j, false), "values");
        });
        check_pair(world, query.turned, key, value);
        query.key_positions.push_back(key.position);
        if (first_key == nullptr && key.position >= 0) first_key = &key;
        note_cache_row(world, query.turned, key, k, true);
        note_cache_row(world, query.turned, value, this->v, false);
      }
      note_query(world, query);
      found.push_back(std::move(query));
    }
    queries_.push_back(std::move(found));
  }

  template <class Make>
  CacheRow& once(std::map<std::pair<int64_t, int64_t>, CacheRow>& rows_of_cache,
                 std::pair<int64_t, int64_t> at, const Make& make) {
    const auto known_row = rows_of_cache.find(at);
    if (known_row != rows_of_cache.end()) return known_row->second;
    return rows_of_cache.emplace(at, make()).first->second;
  }

  void check_pair(size_t world, const TurnedRow& query, const CacheRow& key,
                  const CacheRow& value) {
    if (key.position < 0 && value.position < 0) return;
    if (key.position != value.position || key.is_past != value.is_past ||
        key.batch != value.batch) {
      refuse(node_, fmt::format("column for column its keys and values belong to different tokens: "
                                "position {} and {}",
                                key.position, value.position));
    }
    if (key.batch != query.token / tokens(world)) {
      refuse(node_, "a sequence of the batch reads the keys of another one");
    }
  }

  // A KV head is known by the features of new tokens, or by its places in the past.
  void note_cache_row(size_t world, const TurnedRow& query, const CacheRow& row, CacheSide& side,
                      bool is_key) {
    if (row.position < 0) return;
    auto& head = (is_key ? key_heads_ : value_heads_)[query.features];
    auto& heads_now = is_key ? key_heads_ : value_heads_;
    static_cast<void>(heads_now);
    if (row.is_past) {
      if (side.past >= 0 && side.past != row.past) {
        refuse(node_, fmt::format("it reads two caches, '{}' and '{}'", name_of(side.past),
                                  name_of(row.past)));
      }
      side.past = row.past;
      if (head.place.empty()) head.place = row.place;
      if (head.place != row.place) refuse(node_, "cached rows lie in different places by position");
      side.past_factor = row.factor;
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
        head.rotary != row.fresh.rotary_dim ||
        std::abs(head.factor - row.fresh.factor) > 1e-5 * std::abs(head.factor)) {
      refuse(node_, "new tokens reach the cache in different ways");
    }
    if (world == 0) head.rows[row.fresh.token] = row.symbols;
    if (row.fresh.rotary_dim > 0 && !angles_.add(row.position, row.fresh.angles)) {
      refuse(node_, fmt::format("position {} is rotated by two different angles", row.position));
    }
  }

  void note_query(size_t world, const QueryRow& query) {
    const TurnedRow& t = query.turned;
    if (q_base < 0) {
      q_base = t.base;
      q_factor_ = t.factor;
      rotary_dim = t.rotary_dim;
      interleaved = t.interleaved;
      dim_k = static_cast<int32_t>(t.features.size());
    }
    if (t.base != q_base || t.rotary_dim != rotary_dim || t.interleaved != interleaved ||
        std::abs(t.factor - q_factor_) > 1e-5 * std::abs(q_factor_)) {
      refuse(node_, "its heads are made in different ways");
    }
    if (t.rotary_dim > 0 && !angles_.add(position_of(world, t.token), t.angles)) {
      refuse(node_, fmt::format("position {} is rotated by two different angles",
                                position_of(world, t.token)));
    }
  }

  struct Head {
    std::vector<int32_t> features;
    int32_t base = -1;
    double factor = 1;
    int64_t rotary = 0;
    bool interleaved = false;
    std::vector<int64_t> place;
    std::map<int32_t, std::vector<Symbol>> rows;  // world 0, by token
  };
  using HeadMap = std::map<std::vector<int32_t>, Head>;  // by the query's features

  std::string name_of(int32_t base) const {
    return walk_.model.graph.name_of(walk_.emit.bases[static_cast<size_t>(base)].past_input);
  }

  void side_from(const HeadMap& heads, CacheSide& side, const char* what) {
    // KV heads in the order of their features; each serves a run of query heads.
    std::vector<const Head*> distinct;
    for (const auto& [query, head] : heads) {
      if (head.features.empty()) refuse(node_, fmt::format("no new token joins its {}", what));
      const bool seen = std::any_of(distinct.begin(), distinct.end(), [&](const Head* h) {
        return h->features == head.features && h->base == head.base;
      });
      if (!seen) distinct.push_back(&head);
    }
    std::sort(distinct.begin(), distinct.end(),
              [](const Head* a, const Head* b) { return a->features < b->features; });
    side.fresh.base = distinct[0]->base;
    side.fresh.factor = {1.0f};
    side.dim = static_cast<int64_t>(distinct[0]->features.size());
    side.rows.emplace_back();
    for (const Head* head : distinct) {
      if (head->base != side.fresh.base ||
          static_cast<int64_t>(head->features.size()) != side.dim) {
        refuse(node_, fmt::format("its {} heads are made in different ways", what));
      }
      side.fresh.index.insert(side.fresh.index.end(), head->features.begin(), head->features.end());
      side.place.push_back(head->place);
      for (const auto& [token, row] : head->rows) {
        side.rows[0].insert(side.rows[0].end(), row.begin(), row.end());
      }
    }
    if (side.past >= 0 && std::abs(distinct[0]->factor) > 0 && side.past_factor != 0) {
      fresh_factor_of(side) = distinct[0]->factor;
    }
  }

  double& fresh_factor_of(CacheSide& side) { return &side == &k ? k_factor_ : v_factor_; }

  void order_heads() {
    for (const auto& [features, head] : key_heads_) q_features.push_back(features);
    std::sort(q_features.begin(), q_features.end());
    k_factor_ = key_heads_.begin()->second.factor;
    v_factor_ = value_heads_.begin()->second.factor;
    side_from(key_heads_, k, "key");
    side_from(value_heads_, v, "value");
    dim_v = static_cast<int32_t>(v.dim);
    const size_t kv_heads = k.place.size();
    if (v.place.size() != kv_heads || q_features.size() % kv_heads != 0) {
      refuse(node_, fmt::format("{} query heads read {} key heads and {} value heads",
                                q_features.size(), kv_heads, v.place.size()));
    }
    const size_t group = q_features.size() / kv_heads;
    for (size_t h = 0; h < q_features.size(); ++h) {
      const auto expect = [&](const HeadMap& heads, const CacheSide& side, const char* what) {
        const auto& features = heads.at(q_features[h]).features;
        const auto begin = side.fresh.index.begin() + static_cast<ptrdiff_t>(h / group) * side.dim;
        if (!std::equal(features.begin(), features.end(), begin)) {
          refuse(node_, fmt::format("query head {} does not read {} head {}: heads must share in "
                                    "neighbouring runs",
                                    h, what, h / group));
        }
      };
      expect(key_heads_, k, "key");
      expect(value_heads_, v, "value");
    }
    const Head& key = key_heads_.begin()->second;
    if (key.rotary != rotary_dim || key.interleaved != interleaved) {
      refuse(node_, "queries and keys are rotated in different ways");
    }
    if (value_heads_.begin()->second.rotary != 0) refuse(node_, "its values are rotated");
    std::string why;
    if (rotary_dim > 0) {
      frequencies = angles_.frequencies(walk_.frequency_candidates, &why);
      if (frequencies.empty()) refuse(node_, why);
      measured_ = why == "measured";
    }
    scale = scores_.factor * q_factor_ * k_factor_;
    note_rows();
  }

  void note_rows() {
    for (auto& world : queries_) {
      rows.emplace_back();
      for (QueryRow& query : world) {
        const auto at =
            std::lower_bound(q_features.begin(), q_features.end(), query.turned.features);
        query.head = static_cast<int32_t>(at - q_features.begin());
        rows.back().emplace_back(query.turned.token, query.head);
      }
    }
  }

  void prove_mask() {
    const auto heads = static_cast<int64_t>(q_features.size());
    MaskProof proof(heads);
    for (size_t world = 0; world < walk_.worlds.size(); ++world) {
      const bool layout = world < walk_.num_layout;
      const Shape& shape = shapes_[world];
      const int64_t columns = shape.back(), rows_each = shape[shape.size() - 2];
      const int64_t count = num_elements(shape) / columns;
      ir::Array bias;
      if (!scores_.bias.empty())
        bias = broadcast(scores_.bias[world], layout ? shape : shape_of_bias(world, shape));
      std::vector<float> none(static_cast<size_t>(columns), 0.0f);
      std::vector<int64_t> by_column(static_cast<size_t>(columns));
      for (int64_t j = 0; j < columns; ++j) by_column[static_cast<size_t>(j)] = j;
      const int64_t bias_rows = bias.count() / columns;
      for (int64_t row = 0; row < (layout ? count : std::max(bias_rows, rows_each)); ++row) {
        std::span<const float> values = none;
        if (!scores_.bias.empty()) {
          values = bias.as<float>().subspan(static_cast<size_t>(row * columns),
                                            static_cast<size_t>(columns));
        }
        int64_t head = -1, position = walk_.worlds[world].past + row % rows_each;
        std::span<const int64_t> keys = by_column;
        if (layout) {
          const QueryRow& query = queries_[world][static_cast<size_t>(row)];
          head = query.head;
          position = position_of(world, query.turned.token);
          keys = query.key_positions;
        } else if (bias_rows == rows_each * heads) {
          head = row / rows_each;
        }
        if (!proof.add_row(head, position, keys, values)) {
          refuse(node_, fmt::format("its mask (batch {}, {} tokens after {}): {}",
                                    walk_.worlds[world].batch, walk_.worlds[world].tokens,
                                    walk_.worlds[world].past, proof.why()));
        }
      }
    }
    window = proof.window();
    longest = proof.longest();
    slopes = proof.slopes();
  }

  // Of long worlds no more heads than the mask has.
  Shape shape_of_bias(size_t world, const Shape& shape) const {
    Shape out = scores_.bias[world].shape();
    out.back() = shape.back();
    if (out.size() < 2) out.insert(out.begin(), shape[shape.size() - 2]);
    out[out.size() - 2] = shape[shape.size() - 2];
    return out;
  }

  Walk& walk_;
  const ir::TensorNode& node_;
  const Scores& scores_;
  const Product& product_;
  const View& v_;
  const std::vector<Shape>& shapes_;
  std::pair<int64_t, int64_t> row_source_;
  HeadMap key_heads_, value_heads_;
  AngleTable angles_;
  double q_factor_ = 1, k_factor_ = 1, v_factor_ = 1;
  std::vector<std::vector<QueryRow>> queries_;

 public:
  double v_factor() const { return v_factor_; }
  bool measured_ = false;
};

// cos and sin [tokens, half] of one set of frequencies.
std::pair<ir::ValueId, ir::ValueId> angles_of(Walk& walk, const std::vector<double>& frequencies) {
  const auto found = walk.angles.find(frequencies);
  if (found != walk.angles.end()) return found->second;
  const auto half = static_cast<int64_t>(frequencies.size());
  const std::string name = walk.angles.empty() ? "rope" : fmt::format("rope{}", walk.angles.size());
  const ir::ValueId by = walk.emit.literal(name + ".frequencies", {half}, frequencies);
  const std::vector<ir::ValueId> made =
      walk.emit.graph.add(ops::kRopeAngles, {walk.emit.positions(), by},
                          ops::kRopeAngles.default_attrs(), name + ".angles");
  return walk.angles.emplace(frequencies, std::pair(made[0], made[1])).first->second;
}

ir::ValueId turned(Walk& walk, const Reader& r, ir::ValueId x, int64_t heads,
                   const std::string& name) {
  if (r.rotary_dim == 0) return x;
  const auto [cos, sin] = angles_of(walk, r.frequencies);
  ir::RopeAttrs attrs{heads, r.dim_k, r.interleaved};
  return walk.emit.add(ops::kRope, {x, cos, sin}, ir::Attrs::of(attrs), name);
}

// The slot that holds these keys and values, written at its first use.
size_t slot_of(Walk& walk, const Reader& r, const std::string& at) {
  for (size_t i = 0; i < walk.slots.size(); ++i) {
    const SlotState& s = walk.slots[i];
    if (s.k.fresh == r.k.fresh && s.v.fresh == r.v.fresh && s.frequencies == r.frequencies) {
      return i;
    }
  }
  const auto kv_heads = static_cast<int64_t>(r.k.place.size());
  SlotState slot;
  slot.k = r.k;
  slot.v = r.v;
  slot.frequencies = r.frequencies;
  slot.kv_heads = kv_heads;
  ir::ValueId k = walk.emit.value_of(walk.emit.pick(r.k.fresh, at + ".k"));
  const ir::ValueId v = walk.emit.value_of(walk.emit.pick(r.v.fresh, at + ".v"));
  k = turned(walk, r, k, kv_heads, at + ".k_rope");
  ir::KvAppendAttrs append;
  append.slot = static_cast<int64_t>(walk.slots.size());
  append.kv_heads = kv_heads;
  append.dim_k = r.dim_k;
  append.dim_v = r.dim_v;
  slot.kv = walk.emit.add(ops::kKvAppend, {k, v}, ir::Attrs::of(append), at + ".kv");
  walk.slots.push_back(std::move(slot));
  return walk.slots.size() - 1;
}

}  // namespace

ir::Array broadcast(const ir::Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  ir::TensorNode node;
  node.op = "Expand";
  node.opset = 13;
  const ir::Array target = ir::Array::vector_i64(shape);
  const ir::Array* inputs[] = {&array, &target};
  return eval::run_tensor_node(node, inputs).at(0);
}

void add_bias(const Walk& /*walk*/, Scores& scores, const std::vector<Shape>& shapes,
              const std::vector<ir::Array>& bias) {
  std::vector<ir::Array> sum;
  for (size_t world = 0; world < shapes.size(); ++world) {
    ir::Array more =
        ir::Array::of<float>(ir::ElementType::kFloat, bias[bias.size() == 1 ? 0 : world].shape(),
                             bias[bias.size() == 1 ? 0 : world].to_f32());
    if (scores.bias.empty()) {
      sum.push_back(std::move(more));
      continue;
    }
    ir::TensorNode node;
    node.op = "Add";
    node.opset = 14;
    const ir::Array* inputs[] = {&scores.bias[world], &more};
    sum.push_back(eval::run_tensor_node(node, inputs).at(0));
  }
  scores.bias = std::move(sum);
}

Value make_scores(Walk& walk, const ir::TensorNode& node, const View& q, const View& k,
                  std::vector<Shape> shapes) {
  Base base;
  base.kind = Base::Kind::kProduct;
  base.origin = node.who();
  Scores scores;
  const int32_t id = walk.emit.add_base(base);
  for (size_t world = 0; world < walk.num_layout; ++world) {
    scores.elements.push_back(symbols_of_base(id, shapes[world]));
  }
  scores.product = static_cast<int32_t>(walk.products.size());
  walk.products.push_back({q.elements, k.elements, shapes, node.who()});
  return scores_value(ir::ElementType::kFloat, std::move(shapes), std::move(scores));
}

Value attend(Walk& walk, const ir::TensorNode& node, const Value& probabilities, const View& v,
             ir::ElementType type, std::vector<Shape> shapes) {
  const Scores& scores = *probabilities.get<Scores>();
  Reader r(walk, node, scores, v, probabilities.shapes);
  r.read();
  const auto layer = static_cast<int64_t>(walk.out.layers.size());
  const std::string at = fmt::format("layers.{}.attn", layer);
  const auto heads = static_cast<int64_t>(r.q_features.size());
  Features query;
  query.base = r.q_base;
  query.factor = {1.0f};
  for (const auto& features : r.q_features) {
    query.index.insert(query.index.end(), features.begin(), features.end());
  }
  ir::ValueId q = walk.emit.value_of(walk.emit.pick(query, at + ".q"));
  const size_t slots_before = walk.slots.size();
  const size_t slot = slot_of(walk, r, at);
  q = turned(walk, r, q, heads, at + ".q_rope");
  ir::KvAttentionAttrs attrs;
  attrs.slot = static_cast<int64_t>(slot);
  attrs.heads = heads;
  attrs.kv_heads = walk.slots[slot].kv_heads;
  attrs.dim_k = r.dim_k;
  attrs.dim_v = r.dim_v;
  attrs.scale = static_cast<float>(r.scale);
  attrs.softcap = static_cast<float>(scores.softcap);
  attrs.window = r.window;
  if (r.window > 0) attrs.mask = ir::MaskKind::kWindow;
  std::vector<ir::ValueId> inputs = {q, walk.slots[slot].kv};
  if (!r.slopes.empty()) {
    attrs.has_alibi = true;
    inputs.push_back(walk.emit.literal(at + ".alibi", {heads}, r.slopes));
  }
  ir::ValueId y =
      walk.emit.graph.add(ops::kKvAttention, inputs, ir::Attrs::of(attrs), at + ".y", node.name)[0];
  if (std::abs(r.v_factor() - 1) > 1e-6) {
    const ir::FactorAttrs by{static_cast<float>(r.v_factor())};
    y = walk.emit.add(ops::kScale, {y}, ir::Attrs::of(by), at + ".y_scaled");
  }
  const int32_t base = walk.emit.emitted(y, heads * r.dim_v, node.who());

  TokenLayer found;
  found.node = node.who();
  found.attention =
      node.op == "MatMul" ? "decomposed" : node.domain + (node.domain.empty() ? "" : ".") + node.op;
  found.slot = static_cast<int64_t>(slot);
  found.heads = heads;
  found.kv_heads = attrs.kv_heads;
  found.dim_k = r.dim_k;
  found.dim_v = r.dim_v;
  found.scale = r.scale;
  found.softcap = scores.softcap;
  found.mask = !r.slopes.empty() ? "alibi"
               : r.window > 0    ? fmt::format("window {}", r.window)
                                 : "causal";
  found.proven_length = r.longest;
  found.rope = r.rotary_dim == 0
                   ? "none"
                   : fmt::format("{} {} of {}{}", r.interleaved ? "pairs" : "halves", r.rotary_dim,
                                 r.dim_k, r.measured_ ? " (frequencies measured)" : "");
  found.cache = slot < slots_before ? "shared" : r.k.past < 0 ? "introduced" : "recognised";
  walk.out.layers.push_back(std::move(found));

  std::vector<ir::Array> elements;
  for (size_t world = 0; world < walk.num_layout; ++world) {
    ir::Array array(ir::ElementType::kSymbol, shapes[world]);
    const std::span<Symbol> to = array.mutable_as<Symbol>();
    size_t i = 0;
    for (const auto& [token, head] : r.rows[world]) {
      for (int64_t d = 0; d < r.dim_v; ++d) {
        Symbol s;
        s.base[0] = base;
        s.index[0] = static_cast<int32_t>((token * heads + head) * r.dim_v + d);
        s.factor[0] = 1;
        to[i++] = s;
      }
    }
    elements.push_back(std::move(array));
  }
  return view_value(type, std::move(shapes), std::move(elements));
}

}  // namespace kvern::passes::token_form
