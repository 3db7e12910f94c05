#include "kernels/map.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using testing::Rows;

// Inputs of every test: x0 [rows, dim], x1 [rows, dim / 4] stretched, x2 [4] repeated, x3 [1].
MapDesc desc_of(int64_t dim, const char* program) {
  const MapCode code = encode_map(parse_map_program(program));
  return {dim, {dim, dim / 4, 4, 1}, {0, 0, 1, 1}, code.code, code.constants};
}

struct World {
  Rows x, each, vector, one;
  World(int64_t rows, int64_t dim)
      : x(Rows::random(rows, dim, 1)),
        each(Rows::random(rows, dim / 4, 2)),
        vector(Rows::random(1, 4, 3)),
        one(Rows::random(1, 1, 4)) {}
};

Rows run(const MapDesc& desc, const std::string& name, World& w, int64_t rows, int threads) {
  const int64_t first = w.x.rows - rows;
  Rows y(rows, desc.dim, testing::kUntouched);
  testing::run_op(
      *testing::prepare("map", desc, name),
      {w.x.operand(first, rows), w.each.operand(first, rows), w.vector.operand(), w.one.operand()},
      {y.operand()}, threads);
  EXPECT_TRUE(y.gaps_untouched());
  return y;
}

struct Program {
  const char* text;
  double (*wanted)(double a, double b, double c, double d);
  double tolerance = 4e-7;
};

// Every op at least once.
const Program kPrograms[] = {
    {"x0", [](double a, double, double, double) { return a; }},
    {"x1", [](double, double b, double, double) { return b; }},
    {"x0 x1 mul x2 add x3 sub",
     [](double a, double b, double c, double d) { return a * b + c - d; }, 2e-6},
    {"x0 x1 div", [](double a, double b, double, double) { return a / b; }},
    {"x0 s0 sigmoid mul", [](double a, double, double, double) { return a / (1 + std::exp(-a)); }},
    {"x0 x2 max x1 min",
     [](double a, double b, double c, double) { return std::min(std::max(a, c), b); }},
    {"x0 x1 less x0 neg x0 abs where",
     [](double a, double b, double, double) { return a < b ? -a : std::fabs(a); }},
    {"x0 s0 equal x1 0 equal sub", [](double, double, double, double) { return 1.0; }},
    {"x0 abs sqrt x1 abs 1 add rsqrt mul",
     [](double a, double b, double, double) {
       return std::sqrt(std::fabs(a)) / std::sqrt(std::fabs(b) + 1);
     }},
    {"x0 recip", [](double a, double, double, double) { return 1 / a; }},
    {"x0 exp", [](double a, double, double, double) { return std::exp(a); }},
    {"x0 abs 1.5 add log",
     [](double a, double, double, double) { return std::log(std::fabs(a) + 1.5); }},
    {"x0 tanh", [](double a, double, double, double) { return std::tanh(a); }},
    {"x0 erf", [](double a, double, double, double) { return std::erf(a); }},
    {"x0 sin x2 cos mul",
     [](double a, double, double c, double) { return std::sin(a) * std::cos(c); }, 1e-6},
    {"x0 abs x3 pow", [](double a, double, double, double d) { return std::pow(std::fabs(a), d); },
     1e-6},
    {"x0 2 pow x1 3 pow add x2 abs x0 abs pow add",
     [](double a, double b, double c, double) {
       return a * a + b * b * b + std::pow(std::fabs(c), std::fabs(a));
     },
     2e-6},
    {"x0 0.01 mul erf 1000 mul",
     [](double a, double, double, double) { return 1e3 * std::erf(0.01 * a); }},
    {"x0 4 mul erf", [](double a, double, double, double) { return std::erf(4 * a); }},
    {"x0 4 mul round", [](double a, double, double, double) { return std::nearbyint(4 * a); }},
    {"x0 floor x0 ceil add",
     [](double a, double, double, double) { return std::floor(a) + std::ceil(a); }},
};

// Against double precision, then bit-equal for each count of rows, thread and numerics id.
TEST(Map, ProgramsAgainstDoublePrecision) {
  constexpr int64_t kMost = 17;
  for (const int64_t dim : {int64_t{4}, int64_t{100}, int64_t{256}, int64_t{1348}}) {
    World world(kMost, dim);
    for (const Program& program : kPrograms) {
      SCOPED_TRACE(fmt::format("{} over {}", program.text, dim));
      const MapDesc desc = desc_of(dim, program.text);
      std::map<std::string, Rows> by_numerics;
      for (const Candidate& candidate : testing::runnable("map", desc)) {
        SCOPED_TRACE(candidate.name);
        const Rows all = run(desc, candidate.name, world, kMost, 1);
        const Rows& first = by_numerics.emplace(candidate.numerics, all).first->second;
        for (int64_t r = 0; r < kMost; ++r) {
          for (int64_t i = 0; i < dim; ++i) {
            const double wanted = program.wanted(world.x.at(r, i), world.each.at(r, i / 4),
                                                 world.vector.at(0, i % 4), world.one.at(0, 0));
            const double tolerance = program.tolerance * std::max(1.0, std::fabs(wanted));
            ASSERT_NEAR(all.at(r, i), wanted, tolerance) << r << ", " << i;
            ASSERT_TRUE(testing::same_bits(all.at(r, i), first.at(r, i))) << r << ", " << i;
          }
        }
        for (const int64_t rows : {1, 2, 3, 16}) {
          const Rows got = run(desc, candidate.name, world, rows, static_cast<int>(rows % 3) + 1);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < dim; ++i) {
              ASSERT_TRUE(testing::same_bits(got.at(r, i), all.at(kMost - rows + r, i)));
            }
          }
        }
      }
    }
  }
}

TEST(Map, ADeepStackAndItsCopies) {
  const MapDesc desc =
      desc_of(300 * 4,
              "x0 1 add s0 s1 s2 s3 s4 s5 s6 s7 s8 s9 s10 add add add add add add add add add add "
              "add");
  World world(2, desc.dim);
  for (const Candidate& candidate : testing::runnable("map", desc)) {
    const Rows y = run(desc, candidate.name, world, 2, 1);
    for (int64_t i = 0; i < desc.dim; ++i) {
      const float wanted = 12 * (world.x.at(1, i) + 1);
      ASSERT_NEAR(y.at(1, i), wanted, 2e-6 * std::fabs(wanted));
    }
  }
}

TEST(Map, NaNStaysAndOutputMayBeAnInput) {
  const MapDesc desc = desc_of(8, "x0 0 max 1 min");
  for (const Candidate& candidate : testing::runnable("map", desc)) {
    World w(1, 8);
    w.x.at(0, 0) = std::nanf("");
    w.x.at(0, 1) = 7;
    w.x.at(0, 2) = -7;
    testing::run_op(*testing::prepare("map", desc, candidate.name),
                    {w.x.operand(), w.each.operand(), w.vector.operand(), w.one.operand()},
                    {w.x.operand()});
    EXPECT_TRUE(std::isnan(w.x.at(0, 0))) << candidate.name;
    EXPECT_EQ(w.x.at(0, 1), 1.0f);
    EXPECT_EQ(w.x.at(0, 2), 0.0f);
  }
}

TEST(Map, TextIsReadBack) {
  const char* text = "x0 s0 mul 0.1 add x12 s3 where -2.5 pow";
  const MapProgram program = parse_map_program(text);
  EXPECT_EQ(to_text(program), text);
  const MapCode code = encode_map(program);
  EXPECT_EQ(decode_map(code.code, code.constants), program);
}

std::string refusal(const MapDesc& desc) {
  try {
    find_family("map")->prepare(to_fields(desc), {});
  } catch (const InternalError& error) {
    return std::string("internal: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Map, RefusesDescsOfDamagedPlans) {
  const MapDesc good = desc_of(8, "x0 0.5 mul");
  EXPECT_EQ(refusal(good), "accepted");
  const auto broken = [&](auto change) {
    MapDesc desc = good;
    change(desc);
    return refusal(desc);
  };
  using ::testing::HasSubstr;
  const std::pair<std::string, const char*> kRefused[] = {
      {broken([](MapDesc& d) { d.dim = 0; }), "rows of 0"},
      {broken([](MapDesc& d) { d.dim = 9; }), "does not fit rows of 9"},
      {broken([](MapDesc& d) { d.widths[1] = 0; }), "width 0"},
      {broken([](MapDesc& d) { d.vectors.pop_back(); }), "4 widths and 3 kinds"},
      {broken([](MapDesc& d) { d.vectors[0] = 2; }), "kind 2"},
      {broken([](MapDesc& d) { d.code.clear(); }), "0 steps"},
      {broken([](MapDesc& d) { d.code.resize(1000, 0); }), "1000 steps"},
      {broken([](MapDesc& d) { d.code[0] = 4 << 8; }), "reads x4 of 4"},
      {broken([](MapDesc& d) { d.code[0] = -1; }), "is op 255"},
      {broken([](MapDesc& d) { d.code[0] = 28; }), "is op 28"},
      {broken([](MapDesc& d) { d.code[1] = 1 | 1 << 8; }), "is op 255"},
      {broken([](MapDesc& d) { d.code[1] = 2 | 1 << 8; }), "reads s1 of 1"},
      {broken([](MapDesc& d) { d.code[1] = 3; }), "finds 1 values"},
      {broken([](MapDesc& d) { d.code.pop_back(); }), "2 values are left"},
      {broken([](MapDesc& d) { d.code.assign(13, 0); }), "more than 12 values"},
      {broken([](MapDesc& d) { d.constants[0] = 1e300; }), "f32 cannot hold"},
  };
  for (const auto& [got, wanted] : kRefused) EXPECT_THAT(got, HasSubstr(wanted));
}

}  // namespace
}  // namespace kvern::kernels
