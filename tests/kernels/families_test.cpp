#include <cstdlib>
#include <set>

#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "kernels/linear.h"
#include "kernels/rope.h"
#include "tests/kernels/place_slot.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

TEST(Families, EachNameFindsItsFamily) {
  std::set<std::string> names;
  for (const Family& family : all_families()) {
    EXPECT_EQ(find_family(family.name)->name, family.name);
    names.insert(family.name);
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"embedding", "gather_rows", "rms_norm", "layer_norm", "linear",
                                   "elementwise", "rope_angles", "rope", "kv_append",
                                   "kv_attention", "map", "select", "row_reduce"}));
  EXPECT_EQ(find_family("Linear"), nullptr);
}

TEST(Families, PlainOnlyTakesTheLastOfTheTable) {
  const std::vector<NamedField> desc = {{1, "dim", int64_t{64}}};
  const Family& family = *find_family("rms_norm");
  EXPECT_STREQ(family.prepare(desc, {.preferred = "", .plain_only = true})->implementation(),
               "cpu.rms_norm.plain");
  EXPECT_EQ(family.candidates(desc).back().name, "cpu.rms_norm.plain");
}

TEST(Families, AnUnknownTacticFallsBackToTheTablesOrder) {
  const std::vector<NamedField> desc = {{1, "dim", int64_t{64}}};
  const Family& family = *find_family("rms_norm");
  const auto first = family.prepare(desc, {})->implementation();
  EXPECT_STREQ(family.prepare(desc, {.preferred = "cpu.rms_norm.avx4096"})->implementation(),
               first);
}

// The tactic that a build writes down: the first that no Desc speaks against.
std::string tactic(const char* family, const std::vector<NamedField>& desc) {
  for (const Candidate& candidate : find_family(family)->candidates(desc)) {
    if (candidate.verdict.supported || candidate.verdict.processor) return candidate.name;
  }
  return "none";
}

std::string tactics() {
  KvAttentionDesc attention;
  static_cast<KvSlotDesc&>(attention) = testing::place_slot(2, 32, 32, {}, {}, 16);
  attention.heads = 4;
  KvAttentionDesc f16 = attention;
  f16.k_storage = f16.v_storage = DType::kF16;
  KvAttentionDesc odd = attention;  // groups that only the plain form takes
  static_cast<KvSlotDesc&>(odd) =
      testing::place_slot(2, 32, 32, {DType::kI8, 12}, {DType::kI8, 12}, 16);
  KvAppendDesc append;
  static_cast<KvSlotDesc&>(append) = attention;
  const LinearDesc linear{.n = 16, .k = 32, .storage = DType::kI8, .group = 32};
  const LinearDesc f32{.n = 16, .k = 32};
  const RopeDesc rope{.heads = 2, .head_dim = 8, .rotary_dim = 8};
  const std::vector<NamedField> dim = {{1, "dim", int64_t{64}}};
  std::string out;
  for (const std::string& name :
       {tactic("linear", to_fields(linear)), tactic("linear", to_fields(f32)),
        tactic("kv_attention", to_fields(attention)), tactic("kv_attention", to_fields(f16)),
        tactic("kv_attention", to_fields(odd)), tactic("kv_append", to_fields(append)),
        tactic("rope", to_fields(rope)), tactic("rms_norm", dim),
        tactic("elementwise", {{2, "dim", int64_t{64}}})}) {
    out += name + "\n";
  }
  return out;
}

// The processor's features are read once a process: another process has fewer of them.
TEST(FamiliesDeathTest, TacticsDoNotDependOnTheProcessor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* isa : {"plain", "avx2", "avx512", "avx512-bf16"}) {
    setenv("KVERN_CPU_ISA", isa, 1);
    EXPECT_EXIT(
        {
          std::fputs(tactics().c_str(), stderr);
          std::exit(0);
        },
        ::testing::ExitedWithCode(0),
        "cpu.linear.avx512bf16\ncpu.linear.f32_fma.avx512\n"
        "cpu.kv_attention.avx512bf16\ncpu.kv_attention.avx512\ncpu.kv_attention.plain\n"
        "cpu.kv_append.avx512\ncpu.rope.avx512\ncpu.rms_norm.avx512\ncpu.elementwise.avx512\n")
        << isa;
  }
  unsetenv("KVERN_CPU_ISA");
}

}  // namespace
}  // namespace kvern::kernels
