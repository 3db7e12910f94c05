// Every tests/token_form/*.txt: what is found, the token form, equal numbers; or the refusal.
#include <gmock/gmock.h>

#include <cstdlib>
#include <numeric>

#include "compile/ir/work_budget.h"
#include "kvern/error.h"
#include "tests/compile/passes/token_form_case.h"

namespace kvern::passes {
namespace {

class TokenFormCases : public ::testing::TestWithParam<std::string> {};

void expect_refusal(const TokenFormCase& at) {
  try {
    const TokenForm form = to_token_form(at.model, at.options);
    ADD_FAILURE() << "it was converted:\n" << found_text(form) << token_text(form.graph);
  } catch (const InternalError& error) {
    ADD_FAILURE() << "our own bug: " << error.what();
  } catch (const Error& error) {
    for (const std::string& part : at.refused) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
    }
  }
}

TEST_P(TokenFormCases, IsConvertedOrRefused) {
  const TokenFormCase at = read_token_form_case(GetParam());
  if (!at.refused.empty()) {
    expect_refusal(at);
    return;
  }
  const TokenForm form = to_token_form(at.model, at.options);
  ir::verify(form.graph);
  expect_same_logits(at, form);
  if (std::getenv("KVERN_UPDATE_TOKEN_FORM") != nullptr) {
    update_case(at, form);
    return;
  }
  EXPECT_EQ(found_text(form), at.found);
  EXPECT_EQ(token_text(form.graph), at.token)
      << "where this is meant, KVERN_UPDATE_TOKEN_FORM=1 writes the sections anew: read them";
}

// Six layers of static caches have 14 MB of symbols, what they return as many again; one layer is
// followed at a time.
TEST(TokenFormMemory, StaticCachesAreFollowedLayerByLayer) {
  const TokenFormCase at = read_token_form_case("static_layers");
  const ir::WorkBudget budget({uint64_t{24} << 20, 0, {}});
  EXPECT_EQ(to_token_form(at.model, at.options).layers.size(), 6u);
}

TEST(TokenFormProgress, CountsNodes) {
  TokenFormCase at = read_token_form_case("cache_bhsd");
  std::vector<uint64_t> done;
  at.options.progress = [&](uint64_t node, uint64_t total) {
    EXPECT_EQ(total, at.model.graph.nodes.size());
    done.push_back(node);
  };
  to_token_form(at.model, at.options);
  std::vector<uint64_t> wanted(at.model.graph.nodes.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(done, wanted);
}

INSTANTIATE_TEST_SUITE_P(Text, TokenFormCases, ::testing::ValuesIn(token_form_cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvern::passes
