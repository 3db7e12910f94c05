#include "compile/proof_past.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/passes/token_form/cache_rows.h"
#include "compile/passes/token_form/feeds.h"
#include "tensor/float_bits.h"

namespace kvern::compile {
namespace {

namespace tf = passes::token_form;

double rms(const std::map<int64_t, eval::HostTensor>& side, int64_t slot) {
  const auto found = side.find(slot);
  if (found == side.end() || found->second.f32.empty()) return 1;
  double sum = 0;
  for (const float v : found->second.f32) sum += static_cast<double>(v) * v;
  const double out = std::sqrt(sum / static_cast<double>(found->second.f32.size()));
  return std::isfinite(out) && out > 0 ? out : 1;
}

eval::HostTensor random_rows(int64_t rows, int64_t width, double scale, Random& random) {
  eval::HostTensor out{{rows, width}, {}, {}};
  out.f32.resize(static_cast<size_t>(rows * width));
  for (float& v : out.f32) {
    v = bf16_to_f32(f32_to_bf16(static_cast<float>(random.normal() * scale)));
  }
  return out;
}

// Caches that hold every KV head once per query head (Falcon 40B's): the copies lie behind the
// first, of which the plan knows.
void add_copies(const passes::TokenCache& cache, std::vector<int64_t>& features) {
  const auto heads = static_cast<int64_t>(cache.place.size());
  const auto dim = static_cast<int64_t>(cache.place[0].size());
  const int64_t copies = static_cast<int64_t>(features.size()) / (heads * dim);
  for (int64_t h = 0; h < heads; ++h) {
    const std::vector<int64_t>& head = cache.place[static_cast<size_t>(h)];
    for (int64_t d = 0; d < dim; ++d) {
      if (head[static_cast<size_t>(d)] != h * copies * dim + d) return;
    }
  }
  for (int64_t i = 0; i < heads * copies * dim; ++i) {
    features[static_cast<size_t>(i)] = i / (copies * dim) * dim + i % dim;
  }
}

// Feature of the plan's row at each place of a row of the file, which has `width`; -1: none.
std::vector<int64_t> features_by_place(const passes::TokenCache& cache, int64_t width,
                                       bool is_shared) {
  std::vector<int64_t> out(static_cast<size_t>(width), -1);
  int64_t feature = 0;
  for (const std::vector<int64_t>& head : cache.place) {
    for (const int64_t place : head) {
      out.at(static_cast<size_t>(place)) = feature++;
    }
  }
  if (!is_shared && feature < width && width % feature == 0) add_copies(cache, out);
  return out;
}

void write(ir::Array& to, size_t at, float value) {
  switch (to.type()) {
    case ir::ElementType::kFloat16:
      to.mutable_as<uint16_t>()[at] = f32_to_f16(value);
      break;
    case ir::ElementType::kBfloat16:
      to.mutable_as<uint16_t>()[at] = f32_to_bf16(value);
      break;
    default:
      to.mutable_as<float>()[at] = value;
  }
}

void fill(const passes::TokenCache& cache, const eval::HostTensor& rows, const tf::World& world,
          bool is_shared, ir::Array& to) {
  tf::Base base;
  base.batch_axis = cache.batch_axis;
  base.length_axis = cache.length_axis;
  // Heads may be folded into the batch.
  const int64_t rows_of_file = world.batch * to.shape()[static_cast<size_t>(cache.length_axis)];
  if (rows_of_file == 0) return;
  const std::vector<int64_t> features =
      features_by_place(cache, to.count() / rows_of_file, is_shared);
  const int64_t width = rows.shape[1];
  for (int64_t i = 0; i < to.count(); ++i) {
    const tf::PastPlace at = tf::past_place(base, to.shape(), world.batch, i);
    if (at.position >= world.past || at.place >= static_cast<int64_t>(features.size())) continue;
    const int64_t feature = features[static_cast<size_t>(at.place)];
    if (feature < 0) continue;
    const float value = rows.f32[static_cast<size_t>(at.position * width + feature)];
    write(to, static_cast<size_t>(i), static_cast<float>(value * cache.factor));
  }
}

}  // namespace

std::string why_no_random_past(const ir::TensorModel& model, const passes::TokenForm& form,
                               const tf::InputPlan& plan) {
  if (!plan.has_past) return "the graph takes no cache";
  for (const ir::TensorNode& node : model.graph.nodes) {
    if (node.i("sliding_window_cache", 0) != 0) return "its caches slide";
  }
  for (const passes::TokenSlot& slot : form.slots) {
    if (slot.past_key.empty() || slot.past_value.empty()) return "a layer has no cache";
    if (slot.key.place.empty() || slot.key.place[0].empty()) return "a cache is not read";
  }
  for (const tf::InputPlan::Line& line : plan.lines) {
    if (line.role != "past") continue;
    const ir::TensorValue& value = model.graph.values[static_cast<size_t>(line.id)];
    const bool known = value.type == ir::ElementType::kFloat ||
                       value.type == ir::ElementType::kFloat16 ||
                       value.type == ir::ElementType::kBfloat16;
    if (!known) return fmt::format("a cache of {}", ir::element_type_name(value.type));
  }
  return "";
}

int64_t row_bytes(const passes::TokenForm& form) {
  int64_t bytes = 0;
  for (const passes::TokenSlot& slot : form.slots) {
    bytes += slot.kv_heads * (slot.dim_k + slot.dim_v) * static_cast<int64_t>(sizeof(float));
  }
  return std::max<int64_t>(bytes, 1);
}

namespace {

double scale_of(const passes::TokenForm& form, const passes::TokenSlot& slot) {
  const double scale =
      slot.layers.empty() ? 0 : std::abs(form.layers[static_cast<size_t>(slot.layers[0])].scale);
  return scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(slot.dim_k));
}

}  // namespace

eval::KvState random_past(const passes::TokenForm& form, const eval::KvState& seen, int64_t rows,
                          double spread, Random& random) {
  eval::KvState out;
  for (size_t i = 0; i < form.slots.size(); ++i) {
    const passes::TokenSlot& slot = form.slots[i];
    const auto id = static_cast<int64_t>(i);
    const double query = rms(seen.k, id) * std::sqrt(static_cast<double>(slot.dim_k));
    const double keys = spread / (query * scale_of(form, slot));
    out.k[id] = random_rows(rows, slot.kv_heads * slot.dim_k, keys, random);
    out.v[id] = random_rows(rows, slot.kv_heads * slot.dim_v, rms(seen.v, id), random);
  }
  return out;
}

eval::KvState nudged(eval::KvState rows, Random& random) {
  for (auto& [slot, keys] : rows.k) {
    for (float& v : keys.f32) v *= static_cast<float>(1 + 2e-4 * random.normal());
  }
  return rows;
}

std::map<std::string, ir::Array> file_past(const ir::TensorModel& model,
                                           const passes::TokenForm& form, const tf::InputPlan& plan,
                                           const eval::KvState& rows, const tf::World& world) {
  std::map<std::string, ir::Array> out;
  for (const tf::InputPlan::Line& line : plan.lines) {
    if (line.role != "past") continue;
    const ir::TensorValue& value = model.graph.values[static_cast<size_t>(line.id)];
    out.emplace(value.name, ir::Array(value.type, tf::past_shape(model.graph, line, world)));
  }
  for (size_t i = 0; i < form.slots.size(); ++i) {
    const passes::TokenSlot& slot = form.slots[i];
    const auto id = static_cast<int64_t>(i);
    const bool is_shared = slot.past_key == slot.past_value;  // keys and values in one row
    fill(slot.key, rows.k.at(id), world, is_shared, out.at(slot.past_key));
    fill(slot.value, rows.v.at(id), world, is_shared, out.at(slot.past_value));
  }
  return out;
}

}  // namespace kvern::compile
