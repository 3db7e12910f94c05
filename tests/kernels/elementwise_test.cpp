#include "kernels/elementwise.h"

#include <cmath>

#include "tests/kernels/cases.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using testing::Rows;

double gelu_tanh(double a) {
  return a / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (a + 0.044715 * a * a * a)));
}

double gelu_erf(double a) {
  return 0.5 * a * std::erfc(-a / std::sqrt(2.0));
}

double wanted(const ElementwiseDesc& desc, double a, double b) {
  const double silu = a / (1.0 + std::exp(-a));
  switch (desc.op) {
    case ElementwiseOp::kAdd:
      return a + b;
    case ElementwiseOp::kMul:
      return a * b;
    case ElementwiseOp::kSilu:
      return silu;
    case ElementwiseOp::kSiluMul:
      return silu * b;
    case ElementwiseOp::kGeluTanh:
      return gelu_tanh(a);
    case ElementwiseOp::kGeluTanhMul:
      return gelu_tanh(a) * b;
    case ElementwiseOp::kGeluErf:
      return gelu_erf(a);
    case ElementwiseOp::kGeluErfMul:
      return gelu_erf(a) * b;
    case ElementwiseOp::kScale:
      return a * desc.factor;
    case ElementwiseOp::kRelu:
      return a > 0 ? a : 0;
    case ElementwiseOp::kQuickGelu:
      return a / (1.0 + std::exp(-1.702 * a));
    case ElementwiseOp::kTanh:
      return std::tanh(a);
    case ElementwiseOp::kSigmoid:
      return 1.0 / (1.0 + std::exp(-a));
    case ElementwiseOp::kSoftcap:
      break;
  }
  return desc.factor * std::tanh(a / desc.factor);
}

Rows run(const ElementwiseDesc& desc, const std::string& name, Rows& a, Rows& b, int64_t rows,
         int threads) {
  Rows y(rows, desc.dim, testing::kUntouched);
  const auto op = testing::prepare("elementwise", desc, name);
  std::vector<Operand> inputs = {a.operand(a.rows - rows, rows)};
  if (takes_two(desc.op)) inputs.push_back(b.operand(b.rows - rows, rows));
  testing::run_op(*op, inputs, {y.operand()}, threads);
  return y;
}

ElementwiseOp op_of(const std::string& name) {
  if (name == "add") return ElementwiseOp::kAdd;
  if (name == "mul") return ElementwiseOp::kMul;
  if (name == "silu") return ElementwiseOp::kSilu;
  if (name == "silu_mul") return ElementwiseOp::kSiluMul;
  if (name == "gelu_tanh") return ElementwiseOp::kGeluTanh;
  if (name == "gelu_tanh_mul") return ElementwiseOp::kGeluTanhMul;
  if (name == "gelu_erf") return ElementwiseOp::kGeluErf;
  if (name == "gelu_erf_mul") return ElementwiseOp::kGeluErfMul;
  if (name == "scale") return ElementwiseOp::kScale;
  if (name == "softcap") return ElementwiseOp::kSoftcap;
  if (name == "relu") return ElementwiseOp::kRelu;
  if (name == "quick_gelu") return ElementwiseOp::kQuickGelu;
  if (name == "tanh") return ElementwiseOp::kTanh;
  if (name == "sigmoid") return ElementwiseOp::kSigmoid;
  throw std::runtime_error("op " + name);
}

TEST(Elementwise, Cases) {
  for (const testing::Case& c : testing::read_cases("elementwise")) {
    SCOPED_TRACE(c.line());
    const ElementwiseDesc desc{op_of(c.text("op")), c.integer("dim"),
                               static_cast<float>(c.real("factor", 1.0))};
    // exp rounds its argument, so its relative error grows with it; softcap divides and multiplies.
    const double tolerance = c.real("tolerance", 4e-7);
    const auto counts = c.integers("rows");
    const int64_t most = counts.back();
    Rows a = Rows::random(most, desc.dim, 1);
    Rows b = Rows::random(most, desc.dim, 2);
    std::map<std::string, Rows> by_numerics;
    for (const Candidate& candidate : testing::runnable("elementwise", desc)) {
      SCOPED_TRACE(candidate.name);
      const Rows all = run(desc, candidate.name, a, b, most, 1);
      const Rows& first = by_numerics.emplace(candidate.numerics, all).first->second;
      EXPECT_EQ(std::memcmp(first.values.data(), all.values.data(), all.values.size() * 4), 0);
      for (int64_t r = 0; r < most; ++r) {
        for (int64_t i = 0; i < desc.dim; ++i) {
          const double value = wanted(desc, a.at(r, i), b.at(r, i));
          ASSERT_NEAR(all.at(r, i), value, tolerance * std::fabs(value)) << r << ", " << i;
        }
      }
      for (const int64_t rows : counts) {
        const Rows got = run(desc, candidate.name, a, b, rows, static_cast<int>(rows % 3) + 1);
        EXPECT_TRUE(got.gaps_untouched());
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < desc.dim; ++i) {
            ASSERT_TRUE(testing::same_bits(got.at(r, i), all.at(most - rows + r, i)));
          }
        }
      }
    }
  }
}

// Every magnitude that exp can meet, and the values beyond.
TEST(Elementwise, SiluFromEndToEnd) {
  const ElementwiseDesc desc{ElementwiseOp::kSilu, 4001};
  Rows a(1, desc.dim, 0.0f);
  for (int64_t i = 0; i < desc.dim; ++i) a.at(0, i) = 0.05f * static_cast<float>(i - 2000);
  a.at(0, 0) = -std::numeric_limits<float>::max();
  a.at(0, 1) = std::numeric_limits<float>::max();
  a.at(0, 2) = std::nanf("");
  for (const Candidate& candidate : testing::runnable("elementwise", desc)) {
    SCOPED_TRACE(candidate.name);
    const Rows y = run(desc, candidate.name, a, a, 1, 1);
    EXPECT_EQ(y.at(0, 0), 0.0f);
    EXPECT_EQ(y.at(0, 1), std::numeric_limits<float>::max());
    EXPECT_TRUE(std::isnan(y.at(0, 2)));
    for (int64_t i = 3; i < desc.dim; ++i) {
      const double value = wanted(desc, a.at(0, i), 0);
      // Below -87 the f32 value of 1 + exp(-a) loses range, not accuracy worth keeping.
      ASSERT_NEAR(y.at(0, i), value, 4e-7 * std::fabs(value) + 1e-36) << a.at(0, i);
    }
  }
}

// Both tails: below -13 the value is under f32's range, above 6 it is x.
TEST(Elementwise, GeluFromEndToEnd) {
  for (const ElementwiseOp op : {ElementwiseOp::kGeluErf, ElementwiseOp::kGeluTanh}) {
    const ElementwiseDesc desc{op, 4001};
    Rows a(1, desc.dim, 0.0f);
    for (int64_t i = 0; i < desc.dim; ++i) a.at(0, i) = 0.01f * static_cast<float>(i - 2000);
    a.at(0, 0) = std::nanf("");
    a.at(0, 1) = std::numeric_limits<float>::max();
    for (const Candidate& candidate : testing::runnable("elementwise", desc)) {
      SCOPED_TRACE(candidate.name);
      const Rows y = run(desc, candidate.name, a, a, 1, 1);
      EXPECT_TRUE(std::isnan(y.at(0, 0)));
      EXPECT_EQ(y.at(0, 1), std::numeric_limits<float>::max());
      for (int64_t i = 2; i < desc.dim; ++i) {
        const double value = wanted(desc, a.at(0, i), 0);
        // exp's argument is rounded: the relative error grows with x^2.
        const double tolerance = 1e-6 + 3e-7 * a.at(0, i) * a.at(0, i);
        ASSERT_NEAR(y.at(0, i), value, tolerance * std::fabs(value) + 1e-36) << a.at(0, i);
      }
    }
  }
}

// Small values keep their digits, and both ends are the cap.
TEST(Elementwise, SoftcapFromEndToEnd) {
  const ElementwiseDesc desc{ElementwiseOp::kSoftcap, 4001, 30.0f};
  Rows a(1, desc.dim, 0.0f);
  for (int64_t i = 0; i < desc.dim; ++i) a.at(0, i) = 0.05f * static_cast<float>(i - 2000);
  a.at(0, 0) = -std::numeric_limits<float>::max();
  a.at(0, 1) = std::numeric_limits<float>::infinity();
  a.at(0, 2) = std::nanf("");
  for (const Candidate& candidate : testing::runnable("elementwise", desc)) {
    SCOPED_TRACE(candidate.name);
    const Rows y = run(desc, candidate.name, a, a, 1, 1);
    EXPECT_EQ(y.at(0, 0), -30.0f);
    EXPECT_EQ(y.at(0, 1), 30.0f);
    EXPECT_TRUE(std::isnan(y.at(0, 2)));
    for (int64_t i = 3; i < desc.dim; ++i) {
      const double value = wanted(desc, a.at(0, i), 0);
      ASSERT_NEAR(y.at(0, i), value, 6e-7 * std::fabs(value)) << a.at(0, i);
    }
  }
}

// Both ends, and NaN, which no maximum may swallow.
TEST(Elementwise, ActivationsAtTheirEnds) {
  const float inf = std::numeric_limits<float>::infinity();
  const struct {
    ElementwiseOp op;
    float low, high;
  } kEnds[] = {{ElementwiseOp::kRelu, 0.0f, inf},
               {ElementwiseOp::kTanh, -1.0f, 1.0f},
               {ElementwiseOp::kSigmoid, 0.0f, 1.0f}};
  for (const auto& end : kEnds) {
    const ElementwiseDesc desc{end.op, 3};
    Rows a(1, 3, 0.0f);
    a.at(0, 0) = -inf;
    a.at(0, 1) = inf;
    a.at(0, 2) = std::nanf("");
    for (const Candidate& candidate : testing::runnable("elementwise", desc)) {
      SCOPED_TRACE(candidate.name);
      const Rows y = run(desc, candidate.name, a, a, 1, 1);
      EXPECT_EQ(y.at(0, 0), end.low);
      EXPECT_EQ(y.at(0, 1), end.high);
      EXPECT_TRUE(std::isnan(y.at(0, 2)));
    }
  }
}

TEST(Elementwise, OutputMayBeAnInput) {
  const ElementwiseDesc desc{ElementwiseOp::kSiluMul, 50};
  for (const Candidate& candidate : testing::runnable("elementwise", desc)) {
    Rows a = Rows::random(2, 50, 1);
    Rows b = Rows::random(2, 50, 2);
    const Rows apart = run(desc, candidate.name, a, b, 2, 1);
    const auto op = testing::prepare("elementwise", desc, candidate.name);
    testing::run_op(*op, {a.operand(), b.operand()}, {a.operand()});
    for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(a.at(1, i), apart.at(1, i));
  }
}

TEST(Elementwise, RefusesDescsOfDamagedPlans) {
  EXPECT_THROW(ElementwiseFamily::validate({ElementwiseOp::kAdd, 0}), Error);
  EXPECT_THROW(ElementwiseFamily::validate({static_cast<ElementwiseOp>(14), 8}), Error);
  EXPECT_THROW(ElementwiseFamily::validate({ElementwiseOp::kSoftcap, 8, 0.0f}), Error);
  EXPECT_THROW(ElementwiseFamily::validate({ElementwiseOp::kScale, 8, std::nanf("")}), Error);
}

}  // namespace
}  // namespace kvern::kernels
