// What the outputs that return caches hold, read as soon as no node needs them.
#include <fmt/format.h>

#include "compile/passes/token_form/cache_rows.h"
#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {
namespace {

// The past that an output returns: that of its first element from one; -1 for none.
int32_t past_of(const Walk& walk, const View& view) {
  for (const ir::Array& array : view.elements) {
    for (const Symbol& s : symbols(array)) {
      if (s.base[0] >= 0 &&
          walk.emit.bases[static_cast<size_t>(s.base[0])].kind == Base::Kind::kPast) {
        return s.base[0];
      }
    }
  }
  return -1;
}

class Reader {
 public:
  Reader(const Walk& walk, ReturnedCache& out)
      : walk_(walk), base_(walk.emit.bases[static_cast<size_t>(out.past)]), out_(out) {}

  // Stops at the first problem.
  void read_world(size_t world, const ir::Array& elements) {
    const World& w = walk_.worlds[world];
    const Shape& shape = elements.shape();
    const Shape& past_shape = base_.past_shapes[world];
    if (shape.size() != past_shape.size()) {
      out_.problem = "in another layout";
      return;
    }
    const std::span<const Symbol> all = symbols(elements);
    for (size_t i = 0; i < all.size() && out_.problem.empty(); ++i) {
      const PastPlace at = past_place(base_, shape, w.batch, static_cast<int64_t>(i));
      const Symbol& s = all[i];
      if (at.position < w.past) {
        const PastPlace from = past_place(base_, past_shape, w.batch, s.index[0]);
        if (s.base[0] != out_.past || s.base[1] != kNothing || s.factor[0] != 1 ||
            from.batch != at.batch || from.position != at.position || from.place != at.place) {
          out_.problem = fmt::format("its row {} is not the row of the past there", at.position);
        }
      } else if (at.position < w.total()) {
        const int64_t token = at.batch * w.tokens + at.position - w.past;
        if (world == 0) out_.fresh.push_back({at.position, token, at.place, s});
      } else if (s.base[0] != out_.past) {
        out_.problem = fmt::format("it has {} rows after {} tokens: something is cached twice",
                                   shape[static_cast<size_t>(base_.length_axis)], w.total());
      }
    }
  }

 private:
  const Walk& walk_;
  const Base& base_;
  ReturnedCache& out_;
};

}  // namespace

void settle_output(Walk& walk, ir::TensorValueId id, Value& value) {
  const View* view = value.get<View>();
  if (view == nullptr || walk.returned.contains(id)) return;
  ReturnedCache out;
  out.past = past_of(walk, *view);
  if (out.past < 0) return;
  out.shapes = value.shapes;
  Reader reader(walk, out);
  for (size_t world = 0; world < walk.num_layout && out.problem.empty(); ++world) {
    reader.read_world(world, view->elements[world]);
  }
  walk.returned.emplace(id, std::move(out));
  value = opaque("it returns a cache");
}

}  // namespace kvern::passes::token_form
