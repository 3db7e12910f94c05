// Schemas: what graphs of any make need beside the ops of decoders: elementwise programs, picked
// columns, reductions of a row.
#include <algorithm>

#include "compile/ir/ops.h"
#include "compile/ir/type_rules.h"
#include "tensor/map_program.h"

namespace kvern::ir {
namespace {

constexpr int64_t kMostColumns = int64_t{1} << 31;

std::vector<Type> infer_map(Types in, const Attrs& attrs) {
  const Type* rows = nullptr;
  int64_t width = 1;
  for (const Type& x : in) {
    if (!x.is_kv() && x.dims.size() == 1) {
      want_constant(x, "a vector", 1);
    } else {
      want_tensor(x, "rows", DType::kF32, 2);
      want(!x.dims[0].is_constant(), "rows must not be constant, got {}", to_string(x));
      if (rows != nullptr) want_same_rows(*rows, "one input", x, "another");
      rows = &x;
    }
    width = std::max(width, last_dim(x, "an input"));
  }
  want(rows != nullptr, "at least one input must be rows");
  want(width <= kMostColumns, "rows of {} elements are too wide", width);
  for (const Type& x : in) {
    want(width % last_dim(x, "an input") == 0,
         "the widest input has {} columns, and {} do not "
         "divide them",
         width, to_string(x));
  }
  const std::string problem =
      map_problem(parse_map_program(attrs.as<MapAttrs>().program), static_cast<int>(in.size()));
  want(problem.empty(), "the program has {}", problem);
  return {Type::tensor(DType::kF32, {rows->dims[0], width})};
}

std::vector<Type> infer_select(Types in, const Attrs& attrs) {
  const auto& runs = attrs.as<SelectAttrs>().runs;
  want_tensor(in[0], "x", DType::kF32, 2);
  const int64_t width = last_dim(in[0], "x");
  want(!runs.empty() && runs.size() % 3 == 0, "{} numbers are no runs of three", runs.size());
  int64_t total = 0;
  for (size_t i = 0; i < runs.size(); i += 3) {
    const int64_t count = runs[i + 1];
    const int64_t stride = runs[i + 2];
    const bool sane = runs[i] >= 0 && runs[i] < width && count > 0 &&
                      count <= kMostColumns - total && stride >= -width && stride <= width &&
                      width <= kMostColumns;
    const int64_t last = sane ? runs[i] + (count - 1) * stride : -1;
    want(last >= 0 && last < width, "run [{}, {}, {}] leaves x of {}", runs[i], count, stride,
         to_string(in[0]));
    total += count;
  }
  return {Type::tensor(DType::kF32, {in[0].dims[0], total})};
}

std::vector<Type> infer_row_reduce(Types in, const Attrs& attrs) {
  const auto& a = attrs.as<RowReduceAttrs>();
  want_tensor(in[0], "x", DType::kF32, 2);
  want(a.kind <= ReduceKind::kMin, "kind {} does not exist", static_cast<int>(a.kind));
  want(a.groups > 0 && last_dim(in[0], "x") % a.groups == 0, "{} groups do not divide x of {}",
       a.groups, to_string(in[0]));
  return {Type::tensor(DType::kF32, {in[0].dims[0], a.groups})};
}

}  // namespace

std::vector<int64_t> select_runs(const std::vector<int64_t>& indices) {
  std::vector<int64_t> runs;
  for (size_t i = 0; i < indices.size();) {
    int64_t stride = 1;
    size_t end = i + 1;
    if (end < indices.size()) {
      stride = indices[end] - indices[i];
      while (end < indices.size() && indices[end] - indices[end - 1] == stride) ++end;
      // A pair apart is no pattern: its second may begin a longer run.
      if (end == i + 2 && end < indices.size() && stride != 1) {
        end = i + 1;
        stride = 1;
      }
    }
    runs.insert(runs.end(), {indices[i], static_cast<int64_t>(end - i), stride});
    i = end;
  }
  return runs;
}

namespace ops {

const OpSchema kMap{"map", 1, kMaxMapInputs, infer_map, defaults<MapAttrs>};
const OpSchema kSelect{"select", 1, 1, infer_select, defaults<SelectAttrs>};
const OpSchema kRowReduce{"row_reduce", 1, 1, infer_row_reduce, defaults<RowReduceAttrs>};

}  // namespace ops
}  // namespace kvern::ir
