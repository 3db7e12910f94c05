#include <set>

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
            (std::set<std::string>{"embedding", "gather_rows", "rms_norm", "linear", "elementwise",
                                   "rope_angles", "rope", "kv_append", "kv_attention"}));
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

}  // namespace
}  // namespace kvern::kernels
