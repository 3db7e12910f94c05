// Nodes become instructions: which family, which operands, what becomes a view.
#include "compile/lower/lower.h"

#include <gmock/gmock.h>

#include "kernels/family.h"
#include "kernels/kv_attention.h"
#include "kernels/map.h"
#include "kernels/select.h"

namespace kvern::lower {
namespace {

using plan::OperandKind;

plan::KvLayout layout() {
  plan::KvSlot slot;
  slot.layers = {0};
  slot.kv_heads = 2;
  slot.dim_k = slot.dim_v = 4;
  return plan::KvLayout::make({slot}, 16);
}

// Every instruction of a lowered program is one that its family takes.
Lowered lowered(const std::string& text) {
  Lowered out = program(ir::parse(text), layout());
  for (const plan::Instruction& i : out.program.instructions) {
    const kernels::Family* family = kernels::find_family(i.family);
    EXPECT_NE(family, nullptr) << i.family;
    if (family == nullptr) continue;
    const auto op = family->prepare(i.desc, {});
    EXPECT_EQ(op->num_inputs(), static_cast<int64_t>(i.inputs.size())) << i.family;
    EXPECT_EQ(op->num_outputs(), static_cast<int64_t>(i.outputs.size())) << i.family;
  }
  return out;
}

TEST(Lower, AttentionTakesSinksAndSlopesAndNoState) {
  const Lowered made = lowered(R"(graph "t" {
  weight "sinks" f32[2] store f32 = literal(1, 2)
  weight "slopes" f32[2] store f32 = literal(0.5, 0.25)
  %x = input() {name = "x", dtype = 0, width = 8} : f32[tokens, 8]
  %q = relu(%x) : f32[tokens, 8]
  %sinks = weight() {name = "sinks", shape = [2]} : f32[2]
  %slopes = weight() {name = "slopes", shape = [2]} : f32[2]
  %kv = kv_append(%q, %q) {kv_heads = 2, dim_k = 4, dim_v = 4} : !kv
  %y = kv_attention(%q, %kv, %sinks, %slopes) {heads = 2, kv_heads = 2, dim_k = 4, dim_v = 4, has_sinks = true, has_alibi = true} : f32[tokens, 8]
  output(%y) {name = "y"}
})");
  const plan::Instruction& attention = made.program.instructions.back();
  ASSERT_EQ(attention.inputs.size(), 3u);
  EXPECT_EQ(attention.inputs[0].kind, OperandKind::kBuffer);
  EXPECT_EQ(made.weights[static_cast<size_t>(attention.inputs[1].index)].name, "sinks");
  EXPECT_EQ(made.weights[static_cast<size_t>(attention.inputs[2].index)].name, "slopes");
  const auto desc = from_fields<kernels::KvAttentionDesc>(attention.desc);
  EXPECT_TRUE(desc.has_sinks && desc.has_alibi);
}

TEST(Lower, MapKnowsRowsFromVectors) {
  const Lowered made = lowered(R"(graph "t" {
  weight "g" f32[4] store f32 = literal(1, 2, 3, 4)
  %x = input() {name = "x", dtype = 0, width = 8} : f32[tokens, 8]
  %a = relu(%x) : f32[tokens, 8]
  %mean = row_reduce(%a) {kind = 1, groups = 2} : f32[tokens, 2]
  %g = weight() {name = "g", shape = [4]} : f32[4]
  %y = map(%a, %mean, %g) {program = "x0 x1 sub x2 mul 0.5 add"} : f32[tokens, 8]
  output(%y) {name = "y"}
})");
  const auto desc = from_fields<kernels::MapDesc>(made.program.instructions.back().desc);
  EXPECT_EQ(desc.dim, 8);
  EXPECT_EQ(desc.widths, (std::vector<int64_t>{8, 2, 4}));
  EXPECT_EQ(desc.vectors, (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(desc.constants, (std::vector<double>{0.5}));
}

TEST(Lower, OneStretchOfColumnsIsAView) {
  const Lowered made = lowered(R"(graph "t" {
  %x = input() {name = "x", dtype = 0, width = 8} : f32[tokens, 8]
  %a = relu(%x) : f32[tokens, 8]
  %part = select(%a) {runs = [2, 3, 1]} : f32[tokens, 3]
  %one = select(%a) {runs = [5, 1, 1]} : f32[tokens, 1]
  %back = select(%part) {runs = [2, 3, -1]} : f32[tokens, 3]
  %y = map(%back, %one) {program = "x0 x1 mul"} : f32[tokens, 3]
  output(%y) {name = "y"}
})");
  const auto& instructions = made.program.instructions;
  ASSERT_EQ(instructions.size(), 3u);  // relu, select, map
  EXPECT_EQ(instructions[1].family, "select");
  EXPECT_EQ(instructions[1].inputs[0].index, instructions[0].outputs[0].index);
  EXPECT_EQ(instructions[1].inputs[0].offset_bytes, 8);
  EXPECT_EQ(instructions[2].inputs[1].offset_bytes, 20);
}

// Logits of fewer tokens than the head has rows.
TEST(Lower, AnOutputIsNoView) {
  const Lowered made = lowered(R"(graph "t" {
  %x = input() {name = "x", dtype = 0, width = 8} : f32[tokens, 8]
  %a = relu(%x) : f32[tokens, 8]
  %y = select(%a) {runs = [0, 3, 1]} : f32[tokens, 3]
  output(%y) {name = "logits"}
})");
  ASSERT_EQ(made.program.instructions.size(), 2u);
  EXPECT_EQ(made.program.buffers[static_cast<size_t>(made.program.outputs[0].buffer)].row_bytes,
            12);
}

}  // namespace
}  // namespace kvern::lower
