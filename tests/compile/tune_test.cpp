// Tactics of a program, and instructions that no kernel could run.
#include "compile/tune/tune.h"

#include <gmock/gmock.h>

#include "kernels/kv_attention.h"
#include "kvern/error.h"
#include "tests/kernels/place_slot.h"

namespace kvern::tune {
namespace {

using ::testing::HasSubstr;

plan::Program attention_over(int32_t head_dim) {
  kernels::KvAttentionDesc desc;
  static_cast<kernels::KvSlotDesc&>(desc) = testing::place_slot(2, head_dim, head_dim, {}, {}, 16);
  desc.heads = 4;
  plan::Program program;
  plan::Instruction instruction;
  instruction.family = "kv_attention";
  instruction.desc = to_fields(desc);
  instruction.source = "layers.3.attn.y";
  program.instructions.push_back(std::move(instruction));
  return program;
}

TEST(Tune, NamesTheBestTacticThatTakesTheInstruction) {
  plan::Program program = attention_over(64);
  pick(program);
  EXPECT_EQ(program.instructions[0].tactic, "cpu.kv_attention.avx512bf16");
}

TEST(Tune, WhatNoEngineCouldLoadIsNotBuilt) {
  plan::Program program = attention_over(2048);
  try {
    pick(program);
    ADD_FAILURE() << "heads of 2048 elements were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("'layers.3.attn.y'"));
    EXPECT_THAT(error.what(), HasSubstr("heads of 2048 elements: at most 1024 are supported"));
  }
}

}  // namespace
}  // namespace kvern::tune
