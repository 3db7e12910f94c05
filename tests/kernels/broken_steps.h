// Steps whose index tensors lie. What reads pages must refuse each before it follows any of them.
#pragma once

#include <limits>

#include "base/check.h"
#include "tests/kernels/kv_world.h"

namespace kvern::testing {

// run(desc, view) with a sound step of two sequences, then with every kind of damage.
template <class Desc, class Run>
void expect_broken_steps_refused(KvWorld& world, const Desc& desc, const Run& run) {
  world.step({{0, 10, 10}, {1, 3, 6}}, [&](const kernels::StepView& good,
                                           const std::vector<int64_t>&) {
    EXPECT_NO_THROW(run(desc, good));
    const auto refused = [&](const char* what, const auto& damage) {
      SCOPED_TRACE(what);
      std::vector<int32_t> tokens(good.token_offset, good.token_offset + 3);
      std::vector<int32_t> starts(good.context_start, good.context_start + 2);
      std::vector<int32_t> tables(good.kv[0].table_offset, good.kv[0].table_offset + 3);
      kernels::KvPages pages = good.kv[0];
      pages.table_offset = tables.data();
      kernels::StepView bad = good;
      bad.token_offset = tokens.data();
      bad.context_start = starts.data();
      bad.kv = {&pages, 1};
      Desc other = desc;
      damage(bad, tokens, starts, tables, pages, other);
      EXPECT_THROW(run(other, bad), InternalError);
    };
    using View = kernels::StepView;
    using Ints = std::vector<int32_t>;
    using Pages = kernels::KvPages;
    constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
    refused("rows that do not begin at 0",
            [](View&, Ints& tokens, Ints&, Ints&, Pages&, Desc&) { tokens[0] = 1; });
    refused("rows that go backwards",
            [](View&, Ints& tokens, Ints&, Ints&, Pages&, Desc&) { tokens[1] = 17; });
    refused("fewer rows than the step",
            [](View&, Ints& tokens, Ints&, Ints&, Pages&, Desc&) { tokens[2] = 15; });
    refused("more rows than the step",
            [](View&, Ints& tokens, Ints&, Ints&, Pages&, Desc&) { tokens[2] = kMax; });
    refused("a negative position",
            [](View&, Ints&, Ints& starts, Ints&, Pages&, Desc&) { starts[1] = -1; });
    refused("a position beyond the pages",
            [](View&, Ints&, Ints& starts, Ints&, Pages&, Desc&) { starts[1] = 11; });
    refused("the last position there is",
            [](View&, Ints&, Ints& starts, Ints&, Pages&, Desc&) { starts[1] = kMax; });
    refused("tables that go backwards",
            [](View&, Ints&, Ints&, Ints& tables, Pages&, Desc&) { tables[1] = -1; });
    refused("a table before the first",
            [](View&, Ints&, Ints&, Ints& tables, Pages&, Desc&) { tables[0] = -1; });
    refused("a table too short",
            [](View&, Ints&, Ints&, Ints& tables, Pages&, Desc&) { tables[2] = tables[1] + 1; });
    refused("no page in the pool",
            [](View&, Ints&, Ints&, Ints&, Pages& pages, Desc&) { pages.num_pages = 0; });
    refused("pages of another size",
            [](View&, Ints&, Ints&, Ints&, Pages& pages, Desc&) { pages.page_bytes -= 128; });
    refused("pages of another length",
            [](View&, Ints&, Ints&, Ints&, Pages& pages, Desc&) { pages.page_tokens *= 2; });
    refused("a KV group that the step lacks",
            [](View&, Ints&, Ints&, Ints&, Pages&, Desc& desc) { desc.kv_group = 1; });
    refused("no KV group", [](View& view, Ints&, Ints&, Ints&, Pages&, Desc&) { view.kv = {}; });
  });
}

}  // namespace kvern::testing
