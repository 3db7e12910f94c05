// Random rows as a file's cache inputs hold them.
#include "compile/proof_past.h"

#include <gmock/gmock.h>

namespace kvern::compile {
namespace {

// A cache [batch, 4, past, 2] of which the plan has two heads, each cached for two query heads.
TEST(ProofPast, CopiesOfAHeadHoldItsRow) {
  ir::TensorModel model;
  passes::token_form::InputPlan plan;
  passes::token_form::InputPlan::Line line;
  line.role = "past";
  line.dims = {{-1, "batch"}, {4, ""}, {-1, "past"}, {2, ""}};
  line.batch_axis = 0;
  line.length_axis = 2;
  passes::TokenSlot slot;
  slot.past_key = "past_k";
  slot.past_value = "past_v";
  slot.kv_heads = 2;
  slot.dim_k = slot.dim_v = 2;
  slot.key = {0, 2, {{0, 1}, {4, 5}}, 1};
  slot.value = slot.key;
  for (const std::string& name : {slot.past_key, slot.past_value}) {
    line.id = model.graph.add_value(name);
    model.graph.values.back().type = ir::ElementType::kFloat;
    plan.lines.push_back(line);
  }
  passes::TokenForm form;
  form.slots = {slot};
  eval::KvState rows;
  rows.k[0] = {{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, {}};
  rows.v[0] = rows.k[0];
  passes::token_form::World world;
  world.past = 2;
  const auto past = file_past(model, form, plan, rows, world);
  EXPECT_THAT(past.at("past_k").to_f32(),
              ::testing::ElementsAre(1, 2, 5, 6, 1, 2, 5, 6, 3, 4, 7, 8, 3, 4, 7, 8));
}

}  // namespace
}  // namespace kvern::compile
