// Which features of which token a view's elements are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "compile/passes/token_form/activation.h"
#include "compile/passes/token_form/reduce.h"
#include "compile/passes/token_form/walk.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

constexpr const char* kMixesTokens =
    "its rows are made of several tokens, and a batch of several sequences must be able to compute "
    "every token alone: it cannot be converted";

void refuse(std::string* why, std::string text) {
  if (why != nullptr) *why = std::move(text);
}

std::string past_name(const Walk& walk, const Base& base) {
  return walk.model.graph.name_of(base.past_input);
}

bool adds_tokens(const Walk& walk, const Symbol& s) {
  if (s.base[0] < 0 || s.base[1] < 0) return false;
  const auto token = [&](int i) {
    const Base& base = walk.emit.bases[static_cast<size_t>(s.base[i])];
    return base.kind == Base::Kind::kToken ? s.index[i] / base.width : -1;
  };
  return token(0) >= 0 && token(1) >= 0 && token(0) != token(1);
}

// One element that is one feature of one token.
bool single(const Walk& walk, const Symbol& s, std::string* why) {
  if (s.base[0] == kConstant || s.base[0] == kNothing) {
    refuse(why, "constants are mixed with activations there");
    return false;
  }
  if (s.base[1] != kNothing) {
    refuse(why, adds_tokens(walk, s)
                    ? "elements of two tokens are added there, so that tokens cannot be computed "
                      "alone"
                    : "its input is sums of two features, as a rotation (RoPE) makes them; what "
                      "comes between a rotation and its attention, a norm of q or k say, is not "
                      "supported yet");
    return false;
  }
  const Base& base = walk.emit.bases[static_cast<size_t>(s.base[0])];
  if (base.kind == Base::Kind::kPast) {
    refuse(why, fmt::format("it computes on the cached rows of '{}' before an attention reads "
                            "them, which is not supported yet",
                            past_name(walk, base)));
    return false;
  }
  return true;
}

void shorten(Features& features) {
  const bool equal = std::all_of(features.factor.begin(), features.factor.end(),
                                 [&](float f) { return f == features.factor[0]; });
  if (equal && !features.factor.empty()) features.factor.resize(1);
}

bool before(const Features& a, const Features& b) {
  return std::pair(a.base, a.index) < std::pair(b.base, b.index);
}

}  // namespace

std::optional<RowSet> rows_of(const Walk& walk, const View& view, std::string* why) {
  RowSet set;
  for (size_t world = 0; world < view.elements.size(); ++world) {
    const ir::Array& array = view.elements[world];
    set.token.emplace_back();
    set.head.emplace_back();
    if (array.rank() == 0) {
      refuse(why, "a single number has no rows");
      return std::nullopt;
    }
    const int64_t dim = array.shape().back();
    const std::span<const Symbol> all = symbols(array);
    for (size_t at = 0; dim > 0 && at < all.size(); at += static_cast<size_t>(dim)) {
      Features row;
      row.base = all[at].base[0];
      int32_t token = -1;
      for (int64_t i = 0; i < dim; ++i) {
        const Symbol& s = all[at + static_cast<size_t>(i)];
        if (!single(walk, s, why)) return std::nullopt;
        const auto width =
            static_cast<int32_t>(walk.emit.bases[static_cast<size_t>(s.base[0])].width);
        if (i == 0) token = s.index[0] / width;
        if (s.base[0] != row.base || s.index[0] / width != token) {
          refuse(why,
                 s.base[0] != row.base ? "a row is made of several values there" : kMixesTokens);
          return std::nullopt;
        }
        row.index.push_back(s.index[0] % width);
        row.factor.push_back(s.factor[0]);
      }
      shorten(row);
      auto found = std::find(set.heads.begin(), set.heads.end(), row);
      if (found == set.heads.end()) {
        if (set.heads.size() >= 4096) {
          refuse(why, "its rows differ from token to token");
          return std::nullopt;
        }
        found = set.heads.insert(set.heads.end(), std::move(row));
      }
      set.token.back().push_back(token);
      set.head.back().push_back(static_cast<int32_t>(found - set.heads.begin()));
    }
  }
  // In the order of their features, whatever order the tensor has.
  std::vector<int32_t> order(set.heads.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return before(set.heads[static_cast<size_t>(a)], set.heads[static_cast<size_t>(b)]);
  });
  std::vector<int32_t> rank(order.size());
  std::vector<Features> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    rank[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    sorted.push_back(set.heads[static_cast<size_t>(order[i])]);
  }
  set.heads = std::move(sorted);
  for (auto& heads : set.head) {
    for (int32_t& head : heads) head = rank[static_cast<size_t>(head)];
  }
  if (set.heads.empty()) {
    refuse(why, "it has no rows");
    return std::nullopt;
  }
  return set;
}

std::optional<TokenSet> tokens_of(const Walk& walk, const View& view, std::string* why) {
  TokenSet set;
  for (size_t world = 0; world < view.elements.size(); ++world) {
    const std::span<const Symbol> all = symbols(view.elements[world]);
    const World& w = walk.worlds[world];
    std::vector<Features> tokens(static_cast<size_t>(w.batch * w.tokens));
    std::vector<int32_t>& place = set.place.emplace_back();
    for (const Symbol& s : all) {
      if (!single(walk, s, why)) return std::nullopt;
      const auto width =
          static_cast<int32_t>(walk.emit.bases[static_cast<size_t>(s.base[0])].width);
      Features& mine = tokens.at(static_cast<size_t>(s.index[0] / width));
      if (mine.base >= 0 && mine.base != s.base[0]) {
        refuse(why, "a token is made of several values there");
        return std::nullopt;
      }
      mine.base = s.base[0];
      place.push_back(static_cast<int32_t>(mine.index.size()));
      mine.index.push_back(s.index[0] % width);
      mine.factor.push_back(s.factor[0]);
    }
    for (Features& token : tokens) {
      shorten(token);
      if (set.features.base < 0) set.features = token;
      if (token != set.features) {
        refuse(why, "tokens are not treated alike there");
        return std::nullopt;
      }
    }
    const auto count = static_cast<int32_t>(set.features.index.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto width =
          static_cast<int32_t>(walk.emit.bases[static_cast<size_t>(all[i].base[0])].width);
      place[i] += all[i].index[0] / width * count;
    }
  }
  if (set.features.index.empty()) {
    refuse(why, "it holds no token");
    return std::nullopt;
  }
  return set;
}

bool same_counts(std::span<const Shape> a, std::span<const Shape> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Shape& x, const Shape& y) {
    return num_elements(x) == num_elements(y);
  });
}

std::vector<ir::Array> placed(const TokenSet& set, std::span<const Shape> shapes, int32_t base) {
  std::vector<ir::Array> out;
  for (size_t world = 0; world < set.place.size(); ++world) {
    ir::Array array(ir::ElementType::kSymbol, shapes[world]);
    KVERN_CHECK(static_cast<size_t>(array.count()) == set.place[world].size(),
                "{} places for {} elements", set.place[world].size(), array.count());
    size_t i = 0;
    for (Symbol& s : array.mutable_as<Symbol>()) {
      s = element_of(base, set.place[world][i++]);
    }
    out.push_back(std::move(array));
  }
  return out;
}

int32_t materialise(Walk& walk, const Features& features, const std::string& hint,
                    const std::string& origin) {
  const int32_t picked = walk.emit.pick(features, hint);
  KVERN_CHECK(!features.factor.empty(), "{}: features without a factor", origin);
  const auto width = static_cast<int64_t>(features.index.size());
  if (features.factor.size() > 1) {
    std::vector<double> factors(features.factor.begin(), features.factor.end());
    return walk.emit.emitted(
        vector_map(walk, walk.emit.value_of(picked), VectorOp::kMul,
                   walk.emit.literal(hint + ".factors", {width}, std::move(factors))),
        width, origin);
  }
  return walk.emit.scaled(picked, features.factor[0], hint + "_scaled");
}

std::shared_ptr<const View> as_view(Walk& walk, Value& value, std::string* why) {
  if (auto view = value.view()) return view;
  if (const Func* func = value.get<Func>()) {
    const std::optional<TokenSet> set = tokens_of(walk, *func->x, why);
    if (!set) return nullptr;
    const int32_t x = materialise(walk, set->features, "x", "");
    const ir::ValueId y = write_function(walk, *func->f, walk.emit.value_of(x));
    const int32_t base = walk.emit.emitted(y, static_cast<int64_t>(set->features.index.size()), "");
    std::vector<Shape> shapes(value.shapes.begin(),
                              value.shapes.begin() + static_cast<ptrdiff_t>(walk.num_layout));
    Value made = view_value(value.type, value.shapes, placed(*set, shapes, base));
    value.detail = made.detail;
    return value.view();
  }
  const Stat* stat = value.get<Stat>();
  const Centered* centered = value.get<Centered>();
  if (stat != nullptr || centered != nullptr) {
    const auto shapes = std::span<const Shape>(value.shapes).first(walk.num_layout);
    std::string problem;
    auto view = stat != nullptr ? view_of_stat(walk, *stat, shapes, &problem)
                                : view_of_centered(walk, *centered, shapes, &problem);
    if (view == nullptr) {
      refuse(why, std::move(problem));
      return nullptr;
    }
    value.detail = std::move(view);
    return value.view();
  }
  if (value.get<Scores>() != nullptr) {
    refuse(why, "it uses attention scores outside of softmax and the product with V");
  } else {
    refuse(why, "it is a constant");
  }
  return nullptr;
}

}  // namespace kvern::passes::token_form
