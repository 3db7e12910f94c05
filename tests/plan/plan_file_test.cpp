#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "plan/format.h"
#include "plan/reader.h"
#include "plan/writer.h"

namespace kvern::plan {
namespace {

namespace fs = std::filesystem;

Plan small_plan() {
  Plan plan;
  plan.family = "llama";
  plan.model_name = "small";
  plan.source_hash = "0123456789abcdef";
  plan.weight_format = "keep";
  plan.vocabulary_size = 7;
  plan.num_layers = 1;
  plan.hidden_size = 16;
  plan.num_parameters = 112;
  plan.kv_layout = KvLayout::make({{{0}, 1, 16, 16, {}, {}, Retention::kAll, 0, "rope"}}, 16);
  plan.profile.context_length = {1, 64, 128};
  plan.profile.tokens = {1, 64, 64};
  plan.program.step_inputs = {{"ids", RowCount::kTokens}};
  plan.program.buffers = {{RowCount::kTokens, 64, 0}};
  plan.program.token_arena_bytes_per_row = 64;
  Instruction embed;
  embed.family = "embedding";
  embed.desc = {{1, "vocabulary", int64_t{7}}, {2, "dim", int64_t{16}}};
  embed.inputs = {{OperandKind::kStepInput, 0, 0}, {OperandKind::kWeight, 0, 0}};
  embed.outputs = {{OperandKind::kBuffer, 0, 0}};
  embed.tactic = "cpu.embedding.plain";
  embed.source = "embed";
  plan.program.instructions = {embed};
  plan.program.outputs = {{"logits", 0}};
  plan.generation.stop_ids = {2};
  plan.import_report = R"({"tensors": []})";
  plan.graph_text = "graph {}";
  plan.recipes_text = "recipes {}";
  plan.weights = {{"table", {7, 16}, {}, "tile16", 0, 1000}, {"norm", {16}, {}, "dense", 0, 64}};
  return plan;
}

std::byte pattern(size_t weight, size_t at) {
  return static_cast<std::byte>((weight * 31 + at * 7 + at / 251) & 0xff);
}

class PlanFileTest : public ::testing::Test {
 protected:
  PlanFileTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              (std::string("kvern_plan_") + info->name() + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "x.plan").string();
  }
  ~PlanFileTest() override { fs::remove_all(folder_); }

  void write(Plan plan) {
    WriteHooks hooks;
    hooks.weight = [](size_t index, std::span<std::byte> to) {
      for (size_t i = 0; i < to.size(); ++i) to[i] = pattern(index, i);
    };
    write_plan(path_, plan, hooks);
  }
  std::vector<char> bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void overwrite(const std::vector<char>& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc).write(bytes.data(), bytes.size());
  }

  fs::path folder_;
  std::string path_;
};

Code code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("plan"), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Code::kInternal;
}

TEST_F(PlanFileTest, ComesBackAsWritten) {
  write(small_plan());
  const PlanFile file(path_);
  const Plan& plan = file.plan();
  EXPECT_EQ(plan.family, "llama");
  EXPECT_EQ(plan.vocabulary_size, 7);
  EXPECT_EQ(plan.profile.context_length.max, 128);
  ASSERT_EQ(plan.program.instructions.size(), 1u);
  const Instruction& embed = plan.program.instructions[0];
  EXPECT_EQ(embed.family, "embedding");
  EXPECT_EQ(embed.tactic, "cpu.embedding.plain");
  ASSERT_EQ(embed.desc.size(), 2u);
  EXPECT_EQ(embed.desc[1].number, 2);
  EXPECT_EQ(std::get<int64_t>(embed.desc[1].value), 16);
  EXPECT_EQ(embed.inputs[1].kind, OperandKind::kWeight);
  EXPECT_EQ(plan.generation.stop_ids, std::vector<int32_t>{2});
  EXPECT_EQ(plan.kv_layout.hash(), small_plan().kv_layout.hash());
  EXPECT_EQ(plan.graph_text, "graph {}");
  ASSERT_EQ(plan.weights.size(), 2u);
  EXPECT_EQ(plan.weights[1].offset, 1024u);
  for (size_t w = 0; w < 2; ++w) {
    for (size_t i = 0; i < file.weight(w).size(); ++i) {
      ASSERT_EQ(file.weight(w)[i], pattern(w, i));
    }
  }
  file.verify_weights(nullptr);
}

TEST_F(PlanFileTest, SamePlanSameBytes) {
  write(small_plan());
  const std::vector<char> first = bytes();
  write(small_plan());
  EXPECT_EQ(first, bytes());
}

TEST_F(PlanFileTest, TheReportMayBeFilledInAfterTheWeights) {
  Plan plan = small_plan();
  int weights_seen = 0;
  const std::string late = R"({"tensors": ["a"]})";
  plan.import_report = std::string(late.size(), ' ');
  write_plan(path_, plan,
             {[&](size_t, std::span<std::byte>) { ++weights_seen; },
              {},
              [&] { return weights_seen == 2 ? late : std::string(); },
              {}});
  EXPECT_EQ(PlanFile(path_).plan().import_report, late);
}

TEST_F(PlanFileTest, ACheckThatFailsPublishesNothing) {
  write(small_plan());
  const std::vector<char> old = bytes();
  Plan plan = small_plan();
  plan.model_name = "other";
  WriteHooks hooks;
  hooks.weight = [](size_t, std::span<std::byte> to) {
    std::fill(to.begin(), to.end(), std::byte{});
  };
  hooks.check = [](const std::string& temporary) {
    EXPECT_EQ(PlanFile(temporary).plan().model_name, "other");
    throw Error(Code::kInvalidPlan, "plan: as if the disk had lied");
  };
  EXPECT_THROW(write_plan(path_, plan, hooks), Error);
  EXPECT_EQ(bytes(), old);
}

TEST_F(PlanFileTest, EveryByteOutsideTheWeightsIsGuarded) {
  write(small_plan());
  const std::vector<char> good = bytes();
  const PlanFile file(path_);
  const size_t front = good.size() - file.weights().size();
  ASSERT_EQ(front % kWeightsAlignment, 0u);
  for (size_t at = 0; at < front; ++at) {
    std::vector<char> bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    EXPECT_THROW(parse_plan(std::as_bytes(std::span(bad)), "plan", true), Error) << "byte " << at;
  }
}

TEST_F(PlanFileTest, EveryShorterFileIsRefused) {
  write(small_plan());
  const std::vector<char> good = bytes();
  for (size_t size = 0; size < good.size(); size += 13) {
    const auto part = std::as_bytes(std::span(good)).first(size);
    EXPECT_THROW(parse_plan(part, "plan", true), Error) << size;
  }
  std::vector<char> longer = good;
  longer.push_back(0);
  EXPECT_THROW(parse_plan(std::as_bytes(std::span(longer)), "plan", true), Error);
}

TEST_F(PlanFileTest, DamageUnderRightSumsNeverCrashes) {
  write(small_plan());
  const std::vector<char> good = bytes();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> bad = good;
    const size_t front = 4096;
    for (int flips = 0; flips < 3; ++flips) bad[random() % front] = static_cast<char>(random());
    try {
      parse_plan(std::as_bytes(std::span(bad)), "plan", /*check_sums=*/false);
    } catch (const Error&) {
      // Refusing is right; only a crash, a foreign exception or a huge allocation is wrong.
    }
  }
}

TEST_F(PlanFileTest, AFlippedWeightByteIsFoundByVerify) {
  write(small_plan());
  std::vector<char> bad = bytes();
  bad[bad.size() - 10] ^= 1;
  overwrite(bad);
  const PlanFile file(path_);  // opens: weights are not read at load
  try {
    file.verify_weights(nullptr);
    FAIL() << "the damage was not seen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidPlan);
    EXPECT_NE(std::string(error.what()).find("norm"), std::string::npos) << error.what();
  }
}

TEST_F(PlanFileTest, RefusesByTheRightName) {
  EXPECT_EQ(code_of([&] { PlanFile(folder_.string() + "/no.plan"); }), Code::kNotFound);
  overwrite({'G', 'G', 'U', 'F', 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(code_of([&] { PlanFile file(path_); }), Code::kInvalidPlan);
  Plan foreign = small_plan();
  foreign.device_kind = "cuda";
  write(foreign);
  EXPECT_EQ(code_of([&] { PlanFile file(path_); }), Code::kUnsupported);
}

TEST_F(PlanFileTest, AFailedBuildLeavesTheOldPlan) {
  write(small_plan());
  const std::vector<char> old = bytes();
  Plan plan = small_plan();
  WriteHooks hooks;
  hooks.weight = [](size_t, std::span<std::byte>) {
    throw Error(Code::kInvalidModel, "the source broke off");
  };
  EXPECT_THROW(write_plan(path_, plan, hooks), Error);
  EXPECT_EQ(bytes(), old);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

// A few bytes of the file must not become many in memory.
TEST_F(PlanFileTest, MoreThanAnyProgramHasIsRefused) {
  const auto refused = [&](auto&& change) {
    Plan plan = small_plan();
    change(plan);
    write(plan);
    EXPECT_EQ(code_of([&] { PlanFile file(path_); }), Code::kInvalidPlan);
  };
  refused([](Plan& p) { p.program.instructions[0].inputs.resize(17); });
  refused([](Plan& p) { p.program.instructions[0].outputs.resize(17); });
  refused([](Plan& p) { p.program.step_inputs.resize(17, p.program.step_inputs[0]); });
  refused([](Plan& p) { p.program.instructions[0].desc.push_back({2, "dim", int64_t{16}}); });
  refused([](Plan& p) {
    for (int number = 3; number < 66; ++number) {
      p.program.instructions[0].desc.push_back({number, "more", int64_t{1}});
    }
  });
}

TEST_F(PlanFileTest, ProgramsThatPointOutsideAreRefused) {
  const auto refused = [&](auto&& change) {
    Plan plan = small_plan();
    change(plan);
    write(plan);
    EXPECT_EQ(code_of([&] { PlanFile file(path_); }), Code::kInvalidPlan);
  };
  refused([](Plan& p) { p.program.instructions[0].inputs[1].index = 2; });
  refused([](Plan& p) { p.program.instructions[0].inputs[0].index = -1; });
  refused([](Plan& p) { p.program.instructions[0].outputs[0].offset_bytes = 64; });
  refused([](Plan& p) { p.program.instructions[0].outputs[0].kind = OperandKind::kWeight; });
  refused([](Plan& p) { p.program.buffers[0].offset_per_row = 4; });
  refused([](Plan& p) { p.program.buffers[0].row_bytes = -4; });
  refused([](Plan& p) { p.program.outputs[0].buffer = 1; });
}

TEST_F(PlanFileTest, SamplingDefaultsOutOfRangeAreRefused) {
  const auto opens = [&](const GenerationDefaults& generation) {
    Plan plan = small_plan();
    plan.generation = generation;
    write(plan);
    try {
      PlanFile file(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidPlan);
      return false;
    }
    return true;
  };
  EXPECT_TRUE(opens({.stop_ids = {0, 6}, .temperature = 0.7, .top_p = 0.9, .top_k = 40}));
  EXPECT_FALSE(opens({.stop_ids = {7}}));
  EXPECT_FALSE(opens({.stop_ids = {-1}}));
  EXPECT_FALSE(opens({.stop_ids = {}, .temperature = -1}));
  EXPECT_FALSE(opens({.stop_ids = {}, .temperature = std::nan("")}));
  EXPECT_FALSE(opens({.stop_ids = {}, .top_p = 1.5}));
  EXPECT_FALSE(opens({.stop_ids = {}, .top_k = -1}));
  EXPECT_FALSE(opens({.stop_ids = {}, .min_p = 2}));
  EXPECT_FALSE(opens({.stop_ids = {}, .repetition_penalty = 0}));
}

}  // namespace
}  // namespace kvern::plan
