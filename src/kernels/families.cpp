// Every kernel family there is; a program names them by these strings.
#include <fmt/format.h>

#include <array>

#include "kernels/elementwise.h"
#include "kernels/family.h"
#include "kernels/gather.h"
#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/map.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/row_reduce.h"
#include "kernels/select.h"

namespace kvern::kernels {
namespace {

const std::array kFamilies = {
    make_family<EmbeddingFamily>(),   make_family<GatherRowsFamily>(),
    make_family<RmsNormFamily>(),     make_family<LinearFamily>(),
    make_family<ElementwiseFamily>(), make_family<RopeAnglesFamily>(),
    make_family<RopeFamily>(),        make_family<KvAppendFamily>(),
    make_family<KvAttentionFamily>(), make_family<LayerNormFamily>(),
    make_family<MapFamily>(),         make_family<SelectFamily>(),
    make_family<RowReduceFamily>(),
};

}  // namespace

void family_internal::refuse_plan(const Error& problem) {
  throw Error(problem.code(), fmt::format("{}; the plan is damaged or of another version: build it "
                                          "again",
                                          problem.what()));
}

std::span<const Family> all_families() {
  return kFamilies;
}

const Family* find_family(std::string_view name) {
  for (const Family& family : kFamilies) {
    if (name == family.name) return &family;
  }
  return nullptr;
}

}  // namespace kvern::kernels
