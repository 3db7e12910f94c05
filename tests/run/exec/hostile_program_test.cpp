// Programs that reach outside their memory are refused at load; what is accepted runs.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>

#include "base/file.h"
#include "base/log.h"
#include "kernels/map.h"
#include "kernels/row_reduce.h"
#include "kernels/select.h"
#include "run/exec/check_program.h"
#include "tests/run/exec/tiny_plan.h"

namespace kvern::exec {
namespace {

using plan::OperandKind;
using plan::Plan;

void expect_refused(const char* what, const std::function<void(Plan&)>& change) {
  TinyPlan tiny;
  change(tiny.plan);
  try {
    prepare_program(tiny.plan, /*plain_kernels=*/false);
    find_logits(tiny.plan);
    ADD_FAILURE() << what << " was accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::kInvalidPlan || error.code() == Code::kUnsupported)
        << what << ": " << error.what();
  }
}

// Instruction of the tiny plan by position.
enum At : size_t {
  kAngles,
  kEmbedding,
  kNorm,
  kQkv,
  kAppend,
  kAttention,
  kOut,
  kAdd,
  kGather,
  kHead
};

plan::Instruction& at(Plan& plan, At index) {
  return plan.program.instructions[index];
}

void set_field(plan::Instruction& instruction, const char* name, FieldValue value) {
  for (NamedField& field : instruction.desc) {
    if (field.name == name) field.value = value;
  }
}

void keep_a_window(Plan& plan, int32_t window_tokens) {
  std::vector<plan::KvSlot> slots = plan.kv_layout.slots();
  slots[0].retention = plan::Retention::kWindow;
  slots[0].window_tokens = window_tokens;
  plan.kv_layout = plan::KvLayout::make(slots, kTinyPageTokens);
}

void look_back(Plan& plan, int32_t window) {
  auto desc = from_fields<kernels::KvAttentionDesc>(at(plan, kAttention).desc);
  desc.mask = kernels::AttentionMask::kWindow;
  desc.window = window;
  at(plan, kAttention).desc = to_fields(desc);
}

TEST(HostileProgram, AttentionLooksNoFurtherThanItsKvGroupKeeps) {
  expect_refused("every token of a window", [](Plan& plan) { keep_a_window(plan, 6); });
  expect_refused("a longer window", [](Plan& plan) {
    keep_a_window(plan, 6);
    look_back(plan, 7);
  });
  for (const int32_t kept : {6, 7}) {
    TinyPlan tiny;
    keep_a_window(tiny.plan, kept);
    look_back(tiny.plan, 6);
    EXPECT_NO_THROW(prepare_program(tiny.plan, /*plain_kernels=*/false)) << kept;
  }
}

TEST(HostileProgram, TheTinyPlanItselfIsAccepted) {
  TinyPlan tiny;
  EXPECT_EQ(prepare_program(tiny.plan, false).size(), 10u);
  EXPECT_EQ(find_logits(tiny.plan), 0u);
}

TEST(HostileProgram, OperandsOutsideTheirRows) {
  expect_refused("an offset", [](Plan& p) { at(p, kAppend).inputs[2].offset_bytes = 104; });
  expect_refused("a negative offset", [](Plan& p) { at(p, kNorm).inputs[0].offset_bytes = -4; });
  expect_refused("an odd offset", [](Plan& p) { at(p, kAppend).inputs[0].offset_bytes = 2; });
  expect_refused("a narrow output", [](Plan& p) { at(p, kQkv).outputs[0].index = 2; });
  expect_refused("a wide desc", [](Plan& p) { set_field(at(p, kAdd), "dim", int64_t{17}); });
  expect_refused("a huge desc", [](Plan& p) { set_field(at(p, kAdd), "dim", INT64_MAX / 2); });
  expect_refused("angles with gaps", [](Plan& p) { at(p, kAngles).outputs[0].index = 2; });
  expect_refused("an index", [](Plan& p) { at(p, kNorm).inputs[0].index = 11; });
  expect_refused("a negative index", [](Plan& p) { at(p, kNorm).inputs[0].index = -1; });
}

TEST(HostileProgram, RowsOfTheWrongKind) {
  expect_refused("wanted rows attend", [](Plan& p) { at(p, kAttention).outputs[0].index = 9; });
  expect_refused("mixed rows", [](Plan& p) { at(p, kHead).inputs[0].index = 8; });
  expect_refused("gather into tokens", [](Plan& p) { at(p, kGather).outputs[0].index = 8; });
  expect_refused("positions as ids", [](Plan& p) { at(p, kEmbedding).inputs[0].index = 1; });
  expect_refused("ids as wanted", [](Plan& p) { at(p, kGather).inputs[1].index = 0; });
  expect_refused("a renamed input", [](Plan& p) { p.program.step_inputs[0].name = "idx"; });
  expect_refused("rows of an input",
                 [](Plan& p) { p.program.step_inputs[0].rows = plan::RowCount::kWanted; });
}

TEST(HostileProgram, WeightsThatAreTooSmallOrOfAnotherForm) {
  expect_refused("a short weight", [](Plan& p) { p.weights[3].size_bytes -= 64; });
  expect_refused("another weight", [](Plan& p) { at(p, kQkv).inputs[1].index = 4; });
  expect_refused("a dense weight", [](Plan& p) { at(p, kQkv).inputs[1].index = 2; });
  expect_refused("a packed gamma", [](Plan& p) { at(p, kNorm).inputs[1].index = 4; });
  expect_refused("a buffer", [](Plan& p) { at(p, kQkv).inputs[1].kind = OperandKind::kBuffer; });
  expect_refused("another format", [](Plan& p) { p.weights[3].format.storage = DType::kBf16; });
  expect_refused("a larger desc", [](Plan& p) { set_field(at(p, kQkv), "n", int64_t{48}); });
  expect_refused("few embeddings", [](Plan& p) { p.vocabulary_size = 33; });
}

TEST(HostileProgram, PositionsAreEmbeddedWhereTheTableHoldsAllOfThem) {
  TinyPlan tiny;
  at(tiny.plan, kEmbedding).inputs[0].index = 1;
  tiny.plan.profile.context_length.max = 32;
  EXPECT_NO_THROW(prepare_program(tiny.plan, false));
  tiny.plan.profile.context_length.max = 33;
  EXPECT_THROW(prepare_program(tiny.plan, false), Error);
}

// The plan's addition as a map over both rows and the norm's gamma, a dense vector.
void add_by_map(Plan& plan, const std::function<void(kernels::MapDesc&)>& change) {
  const MapCode code = encode_map(parse_map_program("x0 x1 add x2 0 mul add"));
  kernels::MapDesc desc{16, {16, 16, 16}, {0, 0, 1}, code.code, code.constants};
  change(desc);
  plan::Instruction& add = at(plan, kAdd);
  add.family = kernels::MapFamily::kName;
  add.desc = to_fields(desc);
  add.inputs.push_back(at(plan, kNorm).inputs[1]);
}

TEST(HostileProgram, MapsReadWhatTheirDescSays) {
  using kernels::MapDesc;
  TinyPlan tiny;
  add_by_map(tiny.plan, [](MapDesc&) {});
  EXPECT_NO_THROW(prepare_program(tiny.plan, false));
  const auto refused = [](const char* what, const std::function<void(MapDesc&)>& change) {
    expect_refused(what, [&](Plan& p) { add_by_map(p, change); });
  };
  refused("wider rows", [](MapDesc& d) { d.dim = d.widths[0] = d.widths[1] = 32; });
  refused("a longer vector", [](MapDesc& d) { d.dim = d.widths[2] = 32; });
  refused("rows for a vector", [](MapDesc& d) { d.vectors[2] = 0; });
  refused("a vector for rows", [](MapDesc& d) { d.vectors[0] = 1; });
  refused("an input too few", [](MapDesc& d) {
    d.widths.pop_back();
    d.vectors.pop_back();
  });
  refused("an empty stack", [](MapDesc& d) { d.code.erase(d.code.begin()); });
  refused("no constant", [](MapDesc& d) { d.constants.clear(); });
}

TEST(HostileProgram, SelectsAndReductionsStayInTheirRows) {
  const auto select = [](std::vector<int64_t> runs) {
    return [runs](Plan& p) {
      plan::Instruction& add = at(p, kAdd);
      add.family = kernels::SelectFamily::kName;
      add.desc = to_fields(kernels::SelectDesc{16, runs});
      add.inputs.pop_back();
    };
  };
  TinyPlan tiny;
  select({15, 16, -1})(tiny.plan);
  EXPECT_NO_THROW(prepare_program(tiny.plan, false));
  expect_refused("a run that leaves the row", select({0, 9, 2}));
  expect_refused("more columns than y has", select({0, 17, 0}));
  expect_refused("a reduction into more than y has", [](Plan& p) {
    plan::Instruction& add = at(p, kAdd);
    add.family = kernels::RowReduceFamily::kName;
    add.desc = to_fields(kernels::RowReduceDesc{32, 32});
    add.inputs.pop_back();
  });
}

TEST(HostileProgram, SinksAndSlopesAreOnePerHead) {
  const auto with_slopes = [](int64_t short_by) {
    return [short_by](Plan& p) {
      auto desc = from_fields<kernels::KvAttentionDesc>(at(p, kAttention).desc);
      desc.has_alibi = true;
      at(p, kAttention).desc = to_fields(desc);
      at(p, kAttention).inputs.push_back(at(p, kNorm).inputs[1]);
      auto& weight = p.weights[static_cast<size_t>(at(p, kNorm).inputs[1].index)];
      if (short_by > 0) weight.size_bytes = static_cast<uint64_t>(4 * (desc.heads - short_by));
    };
  };
  TinyPlan tiny;
  with_slopes(0)(tiny.plan);
  EXPECT_NO_THROW(prepare_program(tiny.plan, false));
  expect_refused("a slope too few", with_slopes(1));
  expect_refused("no slopes", [](Plan& p) { set_field(at(p, kAttention), "has_alibi", true); });
}

TEST(HostileProgram, NormsOfHeadsBeyondTheRow) {
  expect_refused("two heads", [](Plan& p) { set_field(at(p, kNorm), "heads", int64_t{2}); });
  expect_refused("huge heads", [](Plan& p) { set_field(at(p, kNorm), "heads", INT64_MAX / 4); });
}

TEST(HostileProgram, PagesOfAnotherShape) {
  expect_refused("KV group", [](Plan& p) { set_field(at(p, kAppend), "kv_group", int64_t{1}); });
  expect_refused("page bytes",
                 [](Plan& p) { set_field(at(p, kAttention), "page_bytes", int64_t{1} << 20); });
  expect_refused("page tokens",
                 [](Plan& p) { set_field(at(p, kAppend), "page_tokens", int64_t{2}); });
  expect_refused("heads", [](Plan& p) { set_field(at(p, kAppend), "kv_heads", int64_t{2}); });
}

// Also how tests/fuzz/seeds/plan/tiny is made: KVERN_KEEP_PLAN=path.
TEST(HostileProgram, AnyDamagedPlanIsRefusedOrSafe) {
  const char* keep = std::getenv("KVERN_KEEP_PLAN");
  const std::string path =
      keep != nullptr ? keep : ::testing::TempDir() + "hostile" + std::to_string(::getpid());
  TinyPlan(DType::kI8).write(path);
  const std::string good = read_text_file(path, 1 << 20);
  if (keep == nullptr) std::filesystem::remove(path);
  log::set_level(log::Level::kOff);
  std::mt19937 random(11);
  int prepared = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    const size_t front = 4096;  // everything but the weights
    ASSERT_LT(front, good.size());
    for (uint32_t flips = random() % 3; flips < 3; ++flips) {
      bad[random() % front] = static_cast<char>(random());
    }
    try {
      const plan::ParsedPlan parsed =
          plan::parse_plan(std::as_bytes(std::span(bad)), "plan", /*check_sums=*/false);
      prepare_program(parsed.plan, /*plain_kernels=*/false);
      ++prepared;
    } catch (const InternalError& error) {
      ADD_FAILURE() << "a plan is never our bug: " << error.what();
    } catch (const Error&) {  // refusing is right
    }
  }
  log::set_level(log::Level::kWarn);
  EXPECT_GT(prepared, 100);
}

TEST(HostileProgram, WrongCountsNamesAndOutputs) {
  expect_refused("a family", [](Plan& p) { at(p, kNorm).family = "rms"; });
  expect_refused("no input", [](Plan& p) { at(p, kNorm).inputs.pop_back(); });
  expect_refused("no output", [](Plan& p) { at(p, kNorm).outputs.clear(); });
  expect_refused("two outputs",
                 [](Plan& p) { at(p, kNorm).outputs.push_back(at(p, kNorm).outputs[0]); });
  expect_refused("no logits", [](Plan& p) { p.program.outputs.clear(); });
  expect_refused("token logits", [](Plan& p) { p.program.outputs[0].buffer = 4; });
  expect_refused("narrow logits", [](Plan& p) { p.program.outputs[0].buffer = 9; });
}

}  // namespace
}  // namespace kvern::exec
