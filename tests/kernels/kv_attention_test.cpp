#include "kernels/kv_attention.h"

#include <cmath>

#include "kernels/cpu/kv/codec.h"
#include "tensor/float_bits.h"
#include "tests/kernels/broken_steps.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/kv_world.h"

namespace kvern::kernels {
namespace {

using testing::KvWorld;
using testing::Rows;
using testing::Turn;

KvFormat format_of(const testing::Case& c, const std::string& key) {
  return {dtype_from_name(c.text(key)).value(), static_cast<int32_t>(c.integer("group", 32))};
}

KvAttentionDesc desc_of(const testing::Case& c) {
  KvAttentionDesc desc;
  static_cast<KvSlotDesc&>(desc) = testing::place_slot(
      static_cast<int32_t>(c.integer("kv_heads")), static_cast<int32_t>(c.integer("dim_k")),
      static_cast<int32_t>(c.integer("dim_v")), format_of(c, "k"), format_of(c, "v"),
      static_cast<int32_t>(c.integer("page_tokens", 16)));
  desc.heads = static_cast<int32_t>(c.integer("heads"));
  desc.scale = static_cast<float>(c.real("scale", 1 / std::sqrt(double(desc.dim_k))));
  desc.window = static_cast<int32_t>(c.integer("window", 0));
  desc.mask = desc.window > 0 ? AttentionMask::kWindow : AttentionMask::kCausal;
  desc.softcap = static_cast<float>(c.real("softcap", 0));
  desc.has_sinks = c.integer("sinks", 0) != 0;
  desc.has_alibi = c.integer("alibi", 0) != 0;
  return desc;
}

// One per head: sinks on both sides of the scores, slopes as BLOOM has them and one of nothing.
Rows sinks_of(const KvAttentionDesc& desc) {
  Rows out(1, desc.heads, 0.0f);
  for (int32_t h = 0; h < desc.heads; ++h) out.at(0, h) = 2.5f * static_cast<float>(h % 4) - 3.0f;
  return out;
}

Rows slopes_of(const KvAttentionDesc& desc) {
  Rows out(1, desc.heads, 0.0f);
  for (int32_t h = 1; h < desc.heads; ++h) {
    out.at(0, h) = std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(desc.heads));
  }
  return out;
}

// Appends and attends step by step; y by row of the world.
Rows attend(KvWorld& world, const KvAttentionDesc& desc, const std::string& name,
            const std::vector<std::vector<Turn>>& steps, int threads) {
  KvAppendDesc append_desc;
  static_cast<KvSlotDesc&>(append_desc) = desc;
  const auto append = testing::prepare("kv_append", append_desc, "cpu.kv_append.plain");
  const auto op = testing::prepare("kv_attention", desc, name);
  const int64_t dim = int64_t{desc.heads} * desc.dim_v;
  Rows out(world.q.rows, dim, testing::kUntouched);
  Rows sinks = sinks_of(desc);
  Rows slopes = slopes_of(desc);
  world.wipe();
  for (const auto& turns : steps) {
    world.step(turns, [&](const StepView& view, const std::vector<int64_t>& rows) {
      Rows q = KvWorld::pick(world.q, rows);
      Rows k = KvWorld::pick(world.k, rows);
      Rows v = KvWorld::pick(world.v, rows);
      Rows y(view.num_tokens, dim, testing::kUntouched);
      testing::run_op(*append, {k.operand(), v.operand()}, {}, 1, &view);
      std::vector<Operand> inputs = {q.operand()};
      if (desc.has_sinks) inputs.push_back(sinks.operand());
      if (desc.has_alibi) inputs.push_back(slopes.operand());
      testing::run_op(*op, inputs, {y.operand()}, threads, &view);
      EXPECT_TRUE(y.gaps_untouched());
      for (int64_t t = 0; t < view.num_tokens; ++t) {
        for (int64_t i = 0; i < dim; ++i) out.at(rows[t], i) = y.at(t, i);
      }
    });
  }
  return out;
}

// One head of one position in double precision, from the bytes in the pages.
std::vector<double> reference(const KvWorld& world, const KvAttentionDesc& desc, bool bf16_q,
                              int32_t s, int64_t position, int64_t head) {
  const int64_t kv_head = head / (desc.heads / desc.kv_heads);
  const auto decode = [&](const cpu::KvRange& range, int64_t p) {
    std::vector<float> row(static_cast<size_t>(range.dim));
    const std::byte* page = world.page(s, p);
    const int64_t token = p % desc.page_tokens;
    cpu::decode_kv_plain(range, range.codes(page, kv_head, token),
                         range.scales(page, kv_head, token), row.data());
    return row;
  };
  const bool windowed = desc.mask == AttentionMask::kWindow;
  const int64_t first = windowed ? std::max<int64_t>(0, position + 1 - desc.window) : 0;
  std::vector<double> scores;
  for (int64_t p = first; p <= position; ++p) {
    const auto k = decode(cpu::KvRange::k_of(desc), p);
    double score = 0;
    for (int64_t i = 0; i < desc.dim_k; ++i) {
      float q = world.q.at(world.row_of(s, position), head * desc.dim_k + i);
      if (bf16_q) q = bf16_to_f32(f32_to_bf16(q));
      score += double{q} * k[i];
    }
    score *= desc.scale;
    if (desc.softcap > 0) score = desc.softcap * std::tanh(score / desc.softcap);
    if (desc.has_alibi) {
      score += double{slopes_of(desc).at(0, head)} * static_cast<double>(p - position);
    }
    scores.push_back(score);
  }
  double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  if (desc.has_sinks) {
    const double sink = sinks_of(desc).at(0, head);
    max = std::max(max, sink);
    sum = std::exp(sink - max);
  }
  std::vector<double> y(static_cast<size_t>(desc.dim_v));
  for (int64_t p = first; p <= position; ++p) {
    const double weight = std::exp(scores[p - first] - max);
    sum += weight;
    const auto v = decode(cpu::KvRange::v_of(desc), p);
    for (int64_t i = 0; i < desc.dim_v; ++i) y[i] += weight * v[i];
  }
  for (double& value : y) value /= sum;
  return y;
}

void expect_right(const KvWorld& world, const KvAttentionDesc& desc, const Candidate& candidate,
                  const Rows& y) {
  const bool bf16_q = candidate.numerics.starts_with("bf16");
  // A score's rounding grows with its size, and exp passes it on.
  const double tolerance = 3e-6 * std::max(1.0, desc.scale * std::sqrt(double(desc.dim_k)));
  for (int32_t s = 0; s < static_cast<int32_t>(world.lengths().size()); ++s) {
    for (int64_t p = 0; p < world.lengths()[s]; p = p < 3 ? p + 1 : p + 29) {
      for (int64_t h = 0; h < desc.heads; ++h) {
        const auto wanted = reference(world, desc, bf16_q, s, p, h);
        for (int64_t i = 0; i < desc.dim_v; ++i) {
          ASSERT_NEAR(y.at(world.row_of(s, p), h * desc.dim_v + i), wanted[i], tolerance)
              << "sequence " << s << ", position " << p << ", head " << h << ", element " << i;
        }
      }
    }
  }
}

void expect_same(const Rows& a, const Rows& b) {
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t i = 0; i < a.dim; ++i) {
      ASSERT_TRUE(testing::same_bits(a.at(r, i), b.at(r, i)))
          << "row " << r << ", element " << i << ": " << a.at(r, i) << " and " << b.at(r, i);
    }
  }
}

// Alone, chunked and together: against double precision once, then bit for bit.
TEST(KvAttention, Cases) {
  for (const testing::Case& c : testing::read_cases("kv_attention")) {
    SCOPED_TRACE(c.line());
    const KvAttentionDesc desc = desc_of(c);
    KvWorld world(desc, desc.heads, c.integers("lengths"));
    std::map<std::string, Rows> of_id;
    for (const Candidate& candidate : testing::runnable("kv_attention", desc)) {
      SCOPED_TRACE(candidate.name);
      const Rows whole =
          attend(world, desc, candidate.name, testing::chunked(world.lengths(), 512), 1);
      expect_right(world, desc, candidate, whole);
      expect_same(whole, of_id.emplace(candidate.numerics, whole).first->second);
      const auto chunks = c.integers("chunks");
      for (const int64_t chunk : chunks) {
        for (const int threads : {1, 2, 3}) {
          if (chunk != chunks[0] && threads != static_cast<int>(chunk % 3) + 1) continue;
          SCOPED_TRACE(fmt::format("chunk {}, {} threads", chunk, threads));
          expect_same(attend(world, desc, candidate.name, testing::chunked(world.lengths(), chunk),
                             threads),
                      whole);
        }
      }
      std::vector<std::vector<Turn>> alone;
      for (size_t s = 0; s < world.lengths().size(); ++s) {
        alone.push_back({{static_cast<int32_t>(s), 0, world.lengths()[s]}});
      }
      SCOPED_TRACE("alone");
      expect_same(attend(world, desc, candidate.name, alone, 2), whole);
    }
  }
}

// A prefill of one sequence beside decodes of another, in one step.
TEST(KvAttention, MixedStepsChangeNothing) {
  KvAttentionDesc desc;
  static_cast<KvSlotDesc&>(desc) =
      testing::place_slot(3, 64, 64, {DType::kBf16, 32}, {DType::kBf16, 32}, 16);
  desc.heads = 9;
  desc.scale = 0.125f;
  KvWorld world(desc, desc.heads, {300, 140});
  for (const Candidate& candidate : testing::runnable("kv_attention", desc)) {
    SCOPED_TRACE(candidate.name);
    const Rows whole =
        attend(world, desc, candidate.name, testing::chunked(world.lengths(), 512), 2);
    std::vector<std::vector<Turn>> mixed = {{{0, 0, 290}}};
    for (int64_t i = 0; i < 10; ++i) mixed.push_back({{1, i * 14, 14}, {0, 290 + i, 1}});
    expect_same(attend(world, desc, candidate.name, mixed, 2), whole);
  }
}

TEST(KvAttention, RefusesPagesThatAreNotThere) {
  KvAttentionDesc desc;
  static_cast<KvSlotDesc&>(desc) =
      testing::place_slot(1, 16, 16, {DType::kBf16, 32}, {DType::kBf16, 32}, 8);
  desc.heads = 2;
  KvWorld world(desc, 2, {20});
  for (const Candidate& candidate : testing::runnable("kv_attention", desc)) {
    SCOPED_TRACE(candidate.name);
    attend(world, desc, candidate.name, {{{0, 0, 20}}}, 1);
    const auto op = testing::prepare("kv_attention", desc, candidate.name);
    const auto run = [&] {
      world.step({{0, 19, 1}}, [&](const StepView& view, const std::vector<int64_t>& rows) {
        Rows q = KvWorld::pick(world.q, rows);
        Rows y(1, 32, testing::kUntouched);
        testing::run_op(*op, {q.operand()}, {y.operand()}, 1, &view);
      });
    };
    EXPECT_NO_THROW(run());
    const auto table = world.tables[0];
    for (const int32_t bad : {-1, 4, 1 << 30}) {
      world.tables[0][1] = bad;
      EXPECT_THROW(run(), InternalError);
      world.tables[0] = table;
    }
    world.tables[0].pop_back();
    EXPECT_THROW(run(), InternalError);
    world.tables[0] = table;
  }
}

// A window group gives pages behind the window back; their entries may hold anything. The page at
// the window's border must be there.
TEST(KvAttention, NeverLooksBehindTheWindow) {
  for (const DType storage : {DType::kF32, DType::kBf16, DType::kF8E4M3}) {
    KvAttentionDesc desc;
    static_cast<KvSlotDesc&>(desc) =
        testing::place_slot(1, 32, 32, {storage, 32}, {storage, 32}, 8);
    desc.heads = 1;
    desc.mask = AttentionMask::kWindow;
    desc.window = 10;
    for (const Candidate& candidate : testing::runnable("kv_attention", desc)) {
      SCOPED_TRACE(fmt::format("{} {}", candidate.name, dtype_name(storage)));
      KvWorld world(desc, 1, {300});
      const Rows whole = attend(world, desc, candidate.name, {{{0, 0, 300}}}, 1);
      const auto op = testing::prepare("kv_attention", desc, candidate.name);
      // Tokens [299 - count + 1, 299] see positions from `first` on, pages of 8.
      for (const int64_t count : {1, 2, 20}) {
        const int64_t first = 300 - count - 9;
        const auto run = [&] {
          world.step({{0, 300 - count, static_cast<int32_t>(count)}},
                     [&](const StepView& view, const std::vector<int64_t>& rows) {
                       Rows q = KvWorld::pick(world.q, rows);
                       Rows y(count, 32, testing::kUntouched);
                       testing::run_op(*op, {q.operand()}, {y.operand()}, 2, &view);
                       for (int64_t t = 0; t < count; ++t) {
                         for (int64_t i = 0; i < 32; ++i) {
                           EXPECT_EQ(y.at(t, i), whole.at(300 - count + t, i));
                         }
                       }
                     });
        };
        const auto table = world.tables[0];
        for (int64_t page = 0; page < first / 8; ++page) {
          world.tables[0][static_cast<size_t>(page)] = page % 2 == 0 ? -1 : 1 << 30;
        }
        EXPECT_NO_THROW(run());
        world.tables[0][static_cast<size_t>(first / 8)] = -1;
        EXPECT_THROW(run(), InternalError);
        world.tables[0] = table;
      }
    }
  }
}

TEST(KvAttention, RefusesStepsThatAreBroken) {
  KvAttentionDesc desc;
  static_cast<KvSlotDesc&>(desc) =
      testing::place_slot(1, 16, 16, {DType::kBf16, 32}, {DType::kBf16, 32}, 8);
  desc.heads = 2;
  KvWorld world(desc, 2, {20, 9});
  for (const Candidate& candidate : testing::runnable("kv_attention", desc)) {
    SCOPED_TRACE(candidate.name);
    testing::expect_broken_steps_refused(
        world, desc, [&](const KvAttentionDesc& d, const StepView& view) {
          Rows q(16, 32, 0.0f);
          Rows y(16, 32, testing::kUntouched);
          testing::run_op(*testing::prepare("kv_attention", d, candidate.name), {q.operand()},
                          {y.operand()}, 1, &view);
        });
  }
}

TEST(KvAttention, RefusesDescsOfDamagedPlans) {
  KvAttentionDesc good;
  static_cast<KvSlotDesc&>(good) =
      testing::place_slot(2, 16, 16, {DType::kBf16, 32}, {DType::kBf16, 32}, 8);
  good.heads = 4;
  EXPECT_NO_THROW(KvAttentionFamily::validate(good));
  const auto refused = [&](const auto& damage) {
    KvAttentionDesc bad = good;
    damage(bad);
    EXPECT_THROW(KvAttentionFamily::validate(bad), Error);
  };
  refused([](KvAttentionDesc& d) { d.heads = 3; });
  refused([](KvAttentionDesc& d) { d.heads = 0; });
  refused([](KvAttentionDesc& d) { d.scale = std::nanf(""); });
  refused([](KvAttentionDesc& d) { d.softcap = -1; });
  refused([](KvAttentionDesc& d) { d.mask = AttentionMask::kWindow; });
  refused([](KvAttentionDesc& d) { d.mask = static_cast<AttentionMask>(2); });
  refused([](KvAttentionDesc& d) { d.page_bytes = 128; });
}

}  // namespace
}  // namespace kvern::kernels
