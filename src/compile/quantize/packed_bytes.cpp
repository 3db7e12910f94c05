#include "compile/quantize/packed_bytes.h"

#include <cstring>

#include "base/check.h"
#include "kernels/pack.h"

namespace kvern::quantize {

void write_packed(const ir::Graph& graph, const ir::Weight& weight, const Files& files,
                  WeightNote& note, std::span<std::byte> to) {
  if (weight.shape.size() == 1) {
    const std::vector<float> values = materialize_f32(graph, weight, files);
    KVERN_CHECK(values.size() * sizeof(float) == to.size());
    std::memcpy(to.data(), values.data(), to.size());
    return;
  }
  const kernels::CodedRows rows = materialize(graph, weight, files);
  if (!note.exact) measure_error(graph, weight, files, rows, note);
  kernels::pack(rows, to);
}

}  // namespace kvern::quantize
