#include "run/exec/operand_needs.h"

#include <fmt/format.h>

#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/map.h"
#include "kernels/pack.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/row_reduce.h"
#include "kernels/select.h"

namespace kvern::exec {
namespace {

using Needs = std::vector<OperandNeed>;
using Fields = std::vector<NamedField>;

int64_t f32_bytes(int64_t elements) {
  if (elements < 1 || elements > (int64_t{1} << 40)) {
    throw Error(Code::kInvalidPlan, fmt::format("plan program: rows of {} elements", elements));
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

OperandNeed row(int64_t elements, RowRule rows = RowRule::kSame) {
  return {NeedKind::kRow, rows, f32_bytes(elements), 0, 0, {}};
}

OperandNeed dense_row(int64_t elements, RowRule rows = RowRule::kSame) {
  return {NeedKind::kDenseRow, rows, f32_bytes(elements), 0, 0, {}};
}

OperandNeed packed(const QuantFormat& format, int64_t n, int64_t k) {
  kernels::check_packable(format, n, k);
  return {NeedKind::kPacked, RowRule::kSame, 0, n, k, format};
}

OperandNeed dense(int64_t n) {
  return {NeedKind::kDense, RowRule::kSame, 0, n, 1, {}};
}

OperandNeed step_input(NeedKind kind, RowRule rows) {
  return {kind, rows, sizeof(int32_t), 0, 0, {}};
}

Needs elementwise(const Fields& fields) {
  const auto d = from_fields<kernels::ElementwiseDesc>(fields);
  Needs needs(static_cast<size_t>(kernels::ElementwiseFamily::num_inputs(d)), row(d.dim));
  needs.push_back(row(d.dim));
  return needs;
}

Needs embedding(const Fields& fields) {
  const auto d = from_fields<kernels::EmbeddingDesc>(fields);
  return {step_input(NeedKind::kIndices, RowRule::kTokens), packed(d.format(), d.vocabulary, d.dim),
          row(d.dim, RowRule::kTokens)};
}

Needs gather_rows(const Fields& fields) {
  const auto d = from_fields<kernels::GatherRowsDesc>(fields);
  return {row(d.dim, RowRule::kTokens), step_input(NeedKind::kWanted, RowRule::kWanted),
          row(d.dim, RowRule::kWanted)};
}

Needs rms_norm(const Fields& fields) {
  const auto d = from_fields<kernels::RmsNormDesc>(fields);
  if (d.has_residual) return {row(d.dim), row(d.dim), dense(d.dim), row(d.dim), row(d.dim)};
  return {row(d.row_dim()), dense(d.dim), row(d.row_dim())};
}

Needs layer_norm(const Fields& fields) {
  const auto d = from_fields<kernels::LayerNormDesc>(fields);
  Needs needs = {row(d.dim), dense(d.dim)};
  if (d.has_bias) needs.push_back(dense(d.dim));
  needs.push_back(row(d.dim));
  return needs;
}

Needs linear(const Fields& fields) {
  const auto d = from_fields<kernels::LinearDesc>(fields);
  Needs needs = {row(d.k), packed(d.format(), d.n, d.k)};
  if (d.has_bias) needs.push_back(dense(d.n));
  needs.push_back(row(d.n));
  return needs;
}

Needs rope_angles(const Fields& fields) {
  const auto d = from_fields<kernels::RopeAnglesDesc>(fields);
  return {step_input(NeedKind::kPositions, RowRule::kTokens), dense(d.half_dim),
          dense_row(d.half_dim, RowRule::kTokens), dense_row(d.half_dim, RowRule::kTokens)};
}

Needs rope(const Fields& fields) {
  const auto d = from_fields<kernels::RopeDesc>(fields);
  const int64_t dim = int64_t{d.heads} * d.head_dim;
  const OperandNeed angles = dense_row(d.rotary_dim / 2);
  return {row(dim), angles, angles, row(dim)};
}

Needs kv_append(const Fields& fields) {
  const auto d = from_fields<kernels::KvAppendDesc>(fields);
  const OperandNeed k = row(int64_t{d.kv_heads} * d.dim_k, RowRule::kTokens);
  const OperandNeed v = row(int64_t{d.kv_heads} * d.dim_v, RowRule::kTokens);
  if (!d.rope) return {k, v};
  const OperandNeed q = row(int64_t{d.heads} * d.dim_k, RowRule::kTokens);
  const OperandNeed angles = dense_row(d.rotary_dim / 2, RowRule::kTokens);
  return {q, k, v, angles, angles, q};
}

Needs kv_attention(const Fields& fields) {
  const auto d = from_fields<kernels::KvAttentionDesc>(fields);
  Needs needs = {row(int64_t{d.heads} * d.dim_k, RowRule::kTokens)};
  if (d.has_sinks) needs.push_back(dense(d.heads));
  if (d.has_alibi) needs.push_back(dense(d.heads));
  needs.push_back(row(int64_t{d.heads} * d.dim_v, RowRule::kTokens));
  return needs;
}

// Whoever holds a program to its needs validated the Desc before, or will.
Needs map(const Fields& fields) {
  const auto d = from_fields<kernels::MapDesc>(fields);
  kernels::MapFamily::validate(d);
  Needs needs;
  for (size_t i = 0; i < d.widths.size(); ++i) {
    needs.push_back(d.vectors[i] != 0 ? dense(d.widths[i]) : row(d.widths[i]));
  }
  needs.push_back(row(d.dim));
  return needs;
}

Needs select(const Fields& fields) {
  const auto d = from_fields<kernels::SelectDesc>(fields);
  kernels::SelectFamily::validate(d);
  return {row(d.dim), row(d.out_dim())};
}

Needs row_reduce(const Fields& fields) {
  const auto d = from_fields<kernels::RowReduceDesc>(fields);
  return {row(d.dim), row(d.groups)};
}

struct Entry {
  std::string_view family;
  Needs (*needs)(const Fields&);
};

constexpr Entry kEntries[] = {
    {kernels::EmbeddingFamily::kName, embedding},
    {kernels::GatherRowsFamily::kName, gather_rows},
    {kernels::RmsNormFamily::kName, rms_norm},
    {kernels::LayerNormFamily::kName, layer_norm},
    {kernels::LinearFamily::kName, linear},
    {kernels::ElementwiseFamily::kName, elementwise},
    {kernels::MapFamily::kName, map},
    {kernels::SelectFamily::kName, select},
    {kernels::RowReduceFamily::kName, row_reduce},
    {kernels::RopeAnglesFamily::kName, rope_angles},
    {kernels::RopeFamily::kName, rope},
    {kernels::KvAppendFamily::kName, kv_append},
    {kernels::KvAttentionFamily::kName, kv_attention},
};

}  // namespace

std::vector<OperandNeed> operand_needs(std::string_view family,
                                       const std::vector<NamedField>& desc) {
  for (const Entry& entry : kEntries) {
    if (entry.family == family) return entry.needs(desc);
  }
  return {};
}

}  // namespace kvern::exec
