#include "kernels/kv_append.h"

#include <bit>
#include <cmath>

#include "kernels/cpu/kv/codec.h"
#include "kernels/cpu/rope/turn.h"
#include "tensor/float_bits.h"
#include "tests/kernels/broken_steps.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/kv_world.h"

namespace kvern::kernels {
namespace {

using testing::KvWorld;
using testing::Rows;

KvFormat format_of(const testing::Case& c, const std::string& key) {
  return {dtype_from_name(c.text(key)).value(), static_cast<int32_t>(c.integer("group", 32))};
}

// Relative rounding of a stored value, and of a group's largest magnitude.
struct Error32 {
  double relative, of_largest;
};
Error32 error_of(DType storage) {
  switch (storage) {
    case DType::kF32:
      return {0, 0};
    case DType::kF16:
      return {0x1p-11, 1e-7};
    case DType::kBf16:
      return {0x1p-8, 0};
    case DType::kI8:
      return {0, 0.5 / 127 + 1e-3};
    default:
      return {0x1p-4, 1e-3};
  }
}

void expect_stored(const cpu::KvRange& range, const std::byte* page, int64_t head, int64_t token,
                   const float* wanted) {
  std::vector<float> got(static_cast<size_t>(range.dim));
  cpu::decode_kv_plain(range, range.codes(page, head, token), range.scales(page, head, token),
                       got.data());
  const Error32 error = error_of(range.storage);
  for (int64_t i = 0; i < range.dim; ++i) {
    float largest = 0;
    const int64_t group = i / range.group * range.group;
    for (int64_t j = group; j < std::min<int64_t>(group + range.group, range.dim); ++j) {
      largest = std::max(largest, std::fabs(wanted[j]));
    }
    ASSERT_NEAR(got[i], wanted[i],
                error.relative * std::fabs(wanted[i]) + error.of_largest * largest)
        << "head " << head << ", element " << i;
  }
}

KvAppendDesc desc_of(const testing::Case& c) {
  KvAppendDesc desc;
  static_cast<KvSlotDesc&>(desc) = testing::place_slot(
      static_cast<int32_t>(c.integer("kv_heads")), static_cast<int32_t>(c.integer("dim_k")),
      static_cast<int32_t>(c.integer("dim_v")), format_of(c, "k"), format_of(c, "v"),
      static_cast<int32_t>(c.integer("page_tokens")));
  desc.heads = static_cast<int32_t>(c.integer("heads", 4));
  desc.rotary_dim = static_cast<int32_t>(c.integer("rotary_dim", 0));
  desc.rope = desc.rotary_dim > 0;
  desc.interleaved = c.integer("interleaved", 0) != 0;
  return desc;
}

// The plain one first.
std::vector<cpu::EncodeKv> encoders() {
  std::vector<cpu::EncodeKv> out = {cpu::encode_kv_plain};
  if (device::cpu_features().avx2_fma) out.push_back(cpu::encode_kv_avx2);
  if (device::cpu_features().avx512) out.push_back(cpu::encode_kv_avx512);
  return out;
}

void expect_one_form(cpu::KvRange range, const std::vector<float>& x) {
  range.dim = static_cast<int32_t>(x.size());
  std::vector<std::byte> codes, scales;
  for (const cpu::EncodeKv encode : encoders()) {
    std::vector<std::byte> own(x.size() * sizeof(float));
    std::vector<std::byte> own_scales(2 * x.size());
    encode(range, x.data(), own.data(), own_scales.data());
    if (codes.empty()) {
      codes = own;
      scales = own_scales;
    }
    EXPECT_EQ(own, codes);
    EXPECT_EQ(own_scales, scales);
  }
}

struct Angles {
  Rows cos, sin;
};

// Runs all chunks; q_out by row of the world.
Rows append_all(KvWorld& world, const KvAppendDesc& desc, const std::string& name, int64_t chunk,
                Angles& angles, int threads) {
  const auto op = testing::prepare("kv_append", desc, name);
  Rows q_out(world.q.rows, world.q.dim, testing::kUntouched);
  for (const auto& turns : testing::chunked(world.lengths(), chunk)) {
    world.step(turns, [&](const StepView& view, const std::vector<int64_t>& rows) {
      Rows q = KvWorld::pick(world.q, rows);
      Rows k = KvWorld::pick(world.k, rows);
      Rows v = KvWorld::pick(world.v, rows);
      Rows cos(view.num_tokens, angles.cos.dim, 0.0f, 0);
      Rows sin = cos;
      Rows turned(view.num_tokens, world.q.dim, testing::kUntouched);
      for (int64_t t = 0; t < view.num_tokens; ++t) {
        for (int64_t i = 0; i < cos.dim; ++i) {
          cos.at(t, i) = angles.cos.at(rows[t], i);
          sin.at(t, i) = angles.sin.at(rows[t], i);
        }
      }
      if (!desc.rope) return testing::run_op(*op, {k.operand(), v.operand()}, {}, threads, &view);
      testing::run_op(*op, {q.operand(), k.operand(), v.operand(), cos.operand(), sin.operand()},
                      {turned.operand()}, threads, &view);
      EXPECT_TRUE(turned.gaps_untouched());
      for (int64_t t = 0; t < view.num_tokens; ++t) {
        for (int64_t i = 0; i < world.q.dim; ++i) q_out.at(rows[t], i) = turned.at(t, i);
      }
    });
  }
  return q_out;
}

void expect_right(const KvWorld& world, const KvAppendDesc& desc, const Angles& angles,
                  const Rows& q_out) {
  const auto turn = [&](const float* x, int64_t row) {
    std::vector<float> y(static_cast<size_t>(desc.dim_k));
    std::copy_n(x, desc.dim_k, y.data());
    if (desc.rope) {
      cpu::turn_plain(x, &angles.cos.values[row * angles.cos.dim],
                      &angles.sin.values[row * angles.sin.dim], desc.dim_k, desc.rotary_dim,
                      desc.interleaved, y.data());
    }
    return y;
  };
  for (int32_t s = 0; s < static_cast<int32_t>(world.lengths().size()); ++s) {
    for (int64_t p = 0; p < world.lengths()[s]; ++p) {
      const int64_t row = world.row_of(s, p);
      const std::byte* page = world.page(s, p);
      for (int64_t h = 0; h < desc.kv_heads; ++h) {
        const auto k =
            turn(&world.k.values[row * (world.k.dim + world.k.gap) + h * desc.dim_k], row);
        expect_stored(cpu::KvRange::k_of(desc), page, h, p % desc.page_tokens, k.data());
        expect_stored(cpu::KvRange::v_of(desc), page, h, p % desc.page_tokens,
                      &world.v.values[row * (world.v.dim + world.v.gap) + h * desc.dim_v]);
      }
      for (int64_t h = 0; desc.rope && h < desc.heads; ++h) {
        const auto q =
            turn(&world.q.values[row * (world.q.dim + world.q.gap) + h * desc.dim_k], row);
        for (int64_t i = 0; i < desc.dim_k; ++i) {
          ASSERT_EQ(q_out.at(row, h * desc.dim_k + i), q[i]);
        }
      }
    }
  }
}

TEST(KvAppend, Cases) {
  for (const testing::Case& c : testing::read_cases("kv_append")) {
    SCOPED_TRACE(c.line());
    const KvAppendDesc desc = desc_of(c);
    KvWorld world(desc, desc.heads, {70, 3, 1, 33});
    Angles angles{Rows::random(world.q.rows, desc.rotary_dim / 2, 7, 0),
                  Rows::random(world.q.rows, desc.rotary_dim / 2, 8, 0)};
    const Rows q_out = append_all(world, desc, "cpu.kv_append.plain", 512, angles, 1);
    expect_right(world, desc, angles, q_out);
    const std::vector<std::byte> wanted = world.pool();
    for (const Candidate& candidate : testing::runnable("kv_append", desc)) {
      for (const int64_t chunk : c.integers("chunks")) {
        SCOPED_TRACE(fmt::format("{} chunk {}", candidate.name, chunk));
        world.wipe();
        const Rows got =
            append_all(world, desc, candidate.name, chunk, angles, static_cast<int>(chunk % 3) + 1);
        EXPECT_TRUE(world.pool() == wanted);  // the same bytes, and none outside the slot
        EXPECT_EQ(std::memcmp(got.values.data(), q_out.values.data(), got.values.size() * 4), 0);
      }
    }
  }
}

TEST(KvAppend, ANumberThatIsNotFiniteShowsInItsGroup) {
  for (const DType storage : {DType::kI8, DType::kF8E4M3}) {
    const cpu::KvRange range{storage, 32, 64, 0, 0, 0, 64, 0};
    float x[64];
    for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      x[40] = bad;
      std::byte page[68];
      float y[64];
      for (const cpu::EncodeKv encode : encoders()) {
        encode(range, x, page, page + 64);
        cpu::decode_kv_plain(range, page, page + 64, y);
        EXPECT_NEAR(y[31], 31.0f, 1.1f);
        for (int i = 32; i < 64; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
      }
    }
  }
}

TEST(KvAppend, RefusesPagesThatAreNotThere) {
  KvAppendDesc desc;
  static_cast<KvSlotDesc&>(desc) =
      testing::place_slot(1, 16, 16, {DType::kBf16, 32}, {DType::kBf16, 32}, 8);
  for (const Candidate& candidate : testing::runnable("kv_append", desc)) {
    Angles none{Rows(0, 0, 0.0f), Rows(0, 0, 0.0f)};
    KvWorld world(desc, 1, {20});
    EXPECT_NO_THROW(append_all(world, desc, candidate.name, 20, none, 1));
    for (const int32_t bad : {-1, 4, 1 << 30}) {
      KvWorld broken(desc, 1, {20});
      broken.tables[0][1] = bad;
      EXPECT_THROW(append_all(broken, desc, candidate.name, 20, none, 1), InternalError);
    }
    KvWorld cut(desc, 1, {20});
    cut.tables[0].pop_back();
    EXPECT_THROW(append_all(cut, desc, candidate.name, 20, none, 1), InternalError);
  }
}

TEST(KvAppend, RefusesStepsThatAreBroken) {
  KvAppendDesc desc;
  static_cast<KvSlotDesc&>(desc) =
      testing::place_slot(1, 16, 16, {DType::kBf16, 32}, {DType::kBf16, 32}, 8);
  for (const Candidate& candidate : testing::runnable("kv_append", desc)) {
    SCOPED_TRACE(candidate.name);
    KvWorld world(desc, 1, {20, 9});
    testing::expect_broken_steps_refused(
        world, desc, [&](const KvAppendDesc& d, const StepView& view) {
          Rows k(16, 16, 0.0f);
          Rows v(16, 16, 0.0f);
          testing::run_op(*testing::prepare("kv_append", d, candidate.name),
                          {k.operand(), v.operand()}, {}, 1, &view);
        });
  }
}

TEST(KvSlot, RefusesRangesOutsideThePage) {
  const KvSlotDesc good = testing::place_slot(2, 64, 48, {DType::kI8, 32}, {DType::kBf16, 32}, 16);
  EXPECT_NO_THROW(validate_kv_slot(good));
  const auto refused = [&](const auto& damage) {
    KvSlotDesc bad = good;
    damage(bad);
    EXPECT_THROW(validate_kv_slot(bad), Error);
  };
  refused([](KvSlotDesc& d) { d.page_bytes -= 128; });
  refused([](KvSlotDesc& d) { d.v_offset += 128; });
  refused([](KvSlotDesc& d) { d.k_offset = -128; });
  refused([](KvSlotDesc& d) { d.kv_heads = 3; });
  refused([](KvSlotDesc& d) { d.kv_heads = 0; });
  refused([](KvSlotDesc& d) { d.dim_k = 65; });
  refused([](KvSlotDesc& d) { d.dim_v = 1 << 30; });
  refused([](KvSlotDesc& d) { d.page_tokens = 17; });
  refused([](KvSlotDesc& d) { d.page_tokens = std::numeric_limits<int32_t>::max(); });
  refused([](KvSlotDesc& d) { d.k_scale_group = 16; });
  refused([](KvSlotDesc& d) { d.k_scale_group = 0; });
  refused([](KvSlotDesc& d) { d.k_scale_offset = 0; });
  refused([](KvSlotDesc& d) { d.v_storage = DType::kI4; });
  refused([](KvSlotDesc& d) { d.k_head_bytes = std::numeric_limits<int64_t>::max(); });
  refused([](KvSlotDesc& d) { d.v_token_bytes = 2; });
}

// One numerics id, one set of bytes, also for what is not a number.
TEST(KvAppend, NanKeepsNoPayloadInAnyImplementation) {
  std::vector<float> x;
  for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff812345u, 0x7fffffffu,
                              0x7f800000u, 0xff800000u, 0x80000000u, 0x33000001u, 0x477ff000u}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  for (const DType storage : {DType::kF16, DType::kBf16, DType::kF32, DType::kI8, DType::kF8E4M3}) {
    SCOPED_TRACE(dtype_name(storage));
    cpu::KvRange range{};
    range.storage = storage;
    range.group = 16;
    expect_one_form(range, x);
  }
}

// Every rounding of e4m3, at every size a scale of 1 leaves it: halves between neighbours, one ulp
// beside them, numbers below its normal ones; then groups so small that their scale is denormal or
// zero, and so large that it is capped.
TEST(KvAppend, RoundsAsThePlainFormDoes) {
  std::vector<float> x;
  for (int code = 0; code < 127; ++code) {
    const float low = f8e4m3_to_f32(static_cast<uint8_t>(code));
    const float high = code < 126 ? f8e4m3_to_f32(static_cast<uint8_t>(code + 1)) : 448.0f;
    const float middle = (low + high) / 2;
    for (const float value : {low, middle, std::nextafter(middle, 0.0f),
                              std::nextafter(middle, 448.0f), 0.3f * low + 0.7f * high}) {
      x.push_back(value);
      x.push_back(-value);
    }
  }
  for (const float size : {1.0f, 0.77f, 1e-5f, 1e-7f, 3e-9f, 1e-12f, 1e-40f, 0.0f, 1e30f}) {
    for (const DType storage : {DType::kI8, DType::kF8E4M3}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(storage), size));
      std::vector<float> scaled;
      for (size_t i = 0; i < x.size(); ++i) {
        // The largest of each group of 16 is 448.
        if (i % 15 == 0) scaled.push_back(448.0f * size);
        scaled.push_back(x[i] * size);
      }
      cpu::KvRange range{};
      range.storage = storage;
      range.group = 16;
      expect_one_form(range, scaled);
    }
  }
}

}  // namespace
}  // namespace kvern::kernels
