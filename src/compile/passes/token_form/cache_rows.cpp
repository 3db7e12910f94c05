#include "compile/passes/token_form/cache_rows.h"

#include <fmt/format.h>

namespace kvern::passes::token_form {
namespace {

std::optional<CacheRow> decode_past(const Walk& walk, size_t world, std::span<const Symbol> row,
                                    const char* what, std::string* why) {
  CacheRow out;
  out.is_past = true;
  out.past = row[0].base[0];
  out.factor = row[0].factor[0];
  const Base& base = walk.emit.bases[static_cast<size_t>(out.past)];
  for (size_t d = 0; d < row.size(); ++d) {
    const Symbol& s = row[d];
    if (s.base[0] != out.past || s.base[1] != kNothing || s.factor[0] != row[0].factor[0]) {
      *why = fmt::format(
          "cached {} are changed after the cache (rotation behind the cache, or "
          "several caches in one row); keep what attention reads in the cache",
          what);
      return std::nullopt;
    }
    const PastPlace at =
        past_place(base, base.past_shapes.at(world), walk.worlds[world].batch, s.index[0]);
    if (d == 0) {
      out.batch = at.batch;
      out.position = at.position;
    }
    if (at.batch != out.batch || at.position != out.position) {
      *why = fmt::format("a row of {} mixes positions of the cache", what);
      return std::nullopt;
    }
    out.place.push_back(at.place);
  }
  return out;
}

}  // namespace

PastPlace past_place(const Base& base, const Shape& shape, int64_t batch_size, int64_t index) {
  PastPlace out;
  int64_t stride = 1;  // of `place`
  for (size_t i = shape.size(); i-- > 0;) {
    const auto axis = static_cast<int64_t>(i);
    const int64_t at = index % shape[i];
    index /= shape[i];
    if (axis == base.length_axis) {
      out.position = at;
    } else if (axis == base.batch_axis) {
      // Above 1 where heads are folded into the batch.
      const int64_t each = std::max<int64_t>(shape[i] / batch_size, 1);
      out.batch = at / each;
      out.place += at % each * stride;
      stride *= each;
    } else {
      out.place += at * stride;
      stride *= shape[i];
    }
  }
  return out;
}

std::optional<CacheRow> decode_cache_row(const Walk& walk, size_t world, std::vector<Symbol> row,
                                         const char* what, std::string* why) {
  CacheRow out;
  if (row[0].base[0] < 0) return out;
  const Base& base = walk.emit.bases[static_cast<size_t>(row[0].base[0])];
  if (base.kind == Base::Kind::kPast) return decode_past(walk, world, row, what, why);
  if (base.kind != Base::Kind::kToken) {
    *why = fmt::format("its {} are no activations", what);
    return std::nullopt;
  }
  std::string problem;
  std::optional<TurnedRow> fresh = decode_row(walk, row, &problem);
  if (!fresh) {
    *why = fmt::format("a row of {}: {}", what, problem);
    return std::nullopt;
  }
  const World& w = walk.worlds[world];
  out.fresh = std::move(*fresh);
  out.batch = out.fresh.token / w.tokens;
  out.position = w.past + out.fresh.token % w.tokens;
  out.symbols = std::move(row);
  return out;
}

}  // namespace kvern::passes::token_form
