// A one-layer model made by hand: 32 ids, hidden size 16, 2 heads over 1 KV head of 8.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "kernels/linear.h"
#include "kernels/pack.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "plan/reader.h"
#include "plan/writer.h"

namespace kvern::exec {

inline constexpr int32_t kTinyVocabulary = 32;
inline constexpr int32_t kTinyPageTokens = 4;

class TinyPlan {
 public:
  explicit TinyPlan(DType kv_storage = DType::kF32) {
    plan.family = "tiny";
    plan.vocabulary_size = kTinyVocabulary;
    plan.num_layers = 1;
    plan.hidden_size = kDim;
    plan.profile = {{1, 4, 8}, {1, 64, 64}, {1, 64, 64}};
    plan.kv_layout = plan::KvLayout::make(
        {{{0}, 1, 8, 8, {kv_storage, 8}, {kv_storage, 8}, plan::Retention::kAll, 0, "rope"}},
        kTinyPageTokens);
    plan.program.step_inputs = {{"ids", plan::RowCount::kTokens},
                                {"positions", plan::RowCount::kTokens},
                                {"wanted", plan::RowCount::kWanted}};
    add_instructions();
  }

  plan::Plan plan;

  void write(const std::string& path) {
    plan::WriteHooks hooks;
    hooks.weight = [&](size_t index, std::span<std::byte> to) { fill(index, to); };
    plan::write_plan(path, plan, hooks);
  }

  // Written and read again.
  std::shared_ptr<const plan::PlanFile> file() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string path =
        ::testing::TempDir() + test->test_suite_name() + test->name() + ".plan";
    write(path);
    auto out = std::make_shared<const plan::PlanFile>(path);
    std::filesystem::remove(path);  // the mapping keeps it
    return out;
  }

 private:
  static constexpr int64_t kDim = 16, kQ = 16, kKv = 8;
  using Ref = plan::OperandRef;

  static Ref buffer(int32_t index, int64_t offset = 0) {
    return {plan::OperandKind::kBuffer, index, offset};
  }
  static Ref weight(int32_t index) { return {plan::OperandKind::kWeight, index, 0}; }
  static Ref step(int32_t index) { return {plan::OperandKind::kStepInput, index, 0}; }

  int32_t add_buffer(int64_t elements, plan::RowCount rows = plan::RowCount::kTokens) {
    int64_t& arena = rows == plan::RowCount::kTokens ? plan.program.token_arena_bytes_per_row
                                                     : plan.program.wanted_arena_bytes_per_row;
    plan.program.buffers.push_back({rows, elements * 4, arena});
    arena += elements * 4;
    return static_cast<int32_t>(plan.program.buffers.size() - 1);
  }

  int32_t add_weight(const char* name, Shape shape) {
    const bool dense = shape.size() == 1;
    const uint64_t bytes =
        static_cast<uint64_t>(dense ? shape[0] * 4 : kernels::packed_bytes({}, shape[0], shape[1]));
    plan.weights.push_back(
        {name, shape, {}, dense ? "dense" : kernels::packing_name({}), 0, bytes});
    return static_cast<int32_t>(plan.weights.size() - 1);
  }

  template <class Desc>
  void add(const char* family, const Desc& desc, std::vector<Ref> inputs,
           std::vector<Ref> outputs) {
    plan.program.instructions.push_back(
        {family, to_fields(desc), std::move(inputs), std::move(outputs), "", family});
  }

  template <class Desc>
  Desc slot_desc() const {
    Desc desc;
    const plan::KvPlacement& p = plan.kv_layout.placement(0);
    const plan::KvSlot& slot = plan.kv_layout.slots()[0];
    desc.kv_heads = slot.kv_heads;
    desc.dim_k = slot.dim_k;
    desc.dim_v = slot.dim_v;
    desc.k_storage = slot.k_format.storage;
    desc.v_storage = slot.v_format.storage;
    desc.k_scale_group = slot.k_format.group;
    desc.v_scale_group = slot.v_format.group;
    desc.k_offset = p.k_offset;
    desc.k_head_bytes = p.k_head_bytes;
    desc.k_token_bytes = p.k_token_bytes;
    desc.k_scale_offset = p.k_scale_offset;
    desc.k_scale_token_bytes = p.k_scale_token_bytes;
    desc.v_offset = p.v_offset;
    desc.v_head_bytes = p.v_head_bytes;
    desc.v_token_bytes = p.v_token_bytes;
    desc.v_scale_offset = p.v_scale_offset;
    desc.v_scale_token_bytes = p.v_scale_token_bytes;
    desc.page_bytes = plan.kv_layout.groups()[0].page_bytes;
    desc.page_tokens = plan.kv_layout.groups()[0].page_tokens;
    return desc;
  }

  void add_instructions() {
    using namespace kernels;
    const int32_t embed = add_weight("embed", {kTinyVocabulary, kDim});
    const int32_t frequencies = add_weight("frequencies", {4});
    const int32_t gamma = add_weight("gamma", {kDim});
    const int32_t w_qkv = add_weight("qkv", {kQ + 2 * kKv, kDim});
    const int32_t w_out = add_weight("out", {kDim, kQ});
    const int32_t cos = add_buffer(4), sin = add_buffer(4), x = add_buffer(kDim);
    const int32_t normed = add_buffer(kDim), qkv = add_buffer(kQ + 2 * kKv), q = add_buffer(kQ);
    const int32_t attended = add_buffer(kQ), out = add_buffer(kDim), sum = add_buffer(kDim);
    const int32_t last = add_buffer(kDim, plan::RowCount::kWanted);
    const int32_t logits = add_buffer(kTinyVocabulary, plan::RowCount::kWanted);
    auto append = slot_desc<KvAppendDesc>();
    append.rope = true;
    append.heads = 2;
    append.rotary_dim = 8;
    auto attention = slot_desc<KvAttentionDesc>();
    attention.heads = 2;
    attention.scale = 0.35f;
    add("rope_angles", RopeAnglesDesc{4}, {step(1), weight(frequencies)},
        {buffer(cos), buffer(sin)});
    add("embedding", EmbeddingDesc{kTinyVocabulary, kDim}, {step(0), weight(embed)}, {buffer(x)});
    add("rms_norm", RmsNormDesc{kDim}, {buffer(x), weight(gamma)}, {buffer(normed)});
    add("linear", LinearDesc{kQ + 2 * kKv, kDim}, {buffer(normed), weight(w_qkv)}, {buffer(qkv)});
    add("kv_append", append,
        {buffer(qkv), buffer(qkv, kQ * 4), buffer(qkv, (kQ + kKv) * 4), buffer(cos), buffer(sin)},
        {buffer(q)});
    add("kv_attention", attention, {buffer(q)}, {buffer(attended)});
    add("linear", LinearDesc{kDim, kQ}, {buffer(attended), weight(w_out)}, {buffer(out)});
    add("elementwise", ElementwiseDesc{ElementwiseOp::kAdd, kDim}, {buffer(x), buffer(out)},
        {buffer(sum)});
    add("gather_rows", GatherRowsDesc{kDim}, {buffer(sum), step(2)}, {buffer(last)});
    add("linear", LinearDesc{kTinyVocabulary, kDim}, {buffer(last), weight(embed)},
        {buffer(logits)});
    plan.program.outputs = {{"logits", logits}};
  }

  void fill(size_t index, std::span<std::byte> to) const {
    const plan::Weight& w = plan.weights[index];
    kernels::CodedRows rows{{}, w.shape[0], w.shape.size() == 2 ? w.shape[1] : 1, {}, {}, {}};
    std::vector<float> values(static_cast<size_t>(rows.n * rows.k));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = w.name == "frequencies" ? std::pow(10.0f, -static_cast<float>(i))
                                          : std::sin(static_cast<float>(i * 7 + index * 13 + 1));
    }
    rows.codes.resize(values.size() * sizeof(float));
    std::memcpy(rows.codes.data(), values.data(), rows.codes.size());
    if (w.shape.size() == 2) return kernels::pack(rows, to);
    std::memcpy(to.data(), rows.codes.data(), rows.codes.size());
  }
};

}  // namespace kvern::exec
