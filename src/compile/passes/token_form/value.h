// What is known of a value of the tensor graph while it is walked: in every world its shape, and
// what its elements are.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "compile/ir/array.h"
#include "compile/ir/tensor_graph.h"
#include "compile/passes/token_form/symbol.h"

namespace kvern::passes::token_form {

// Concrete sizes for one evaluation of the graph's shapes, masks and tables.
struct World {
  int64_t batch = 1;
  int64_t tokens = 1;  // new ones, per sequence
  int64_t past = 0;
  // Elements are followed as symbols; otherwise only shapes and constants are.
  bool layout = true;
  int64_t capacity = 0;  // rows of a static cache whose size the file leaves free; 0: it grows
  int64_t total() const { return past + tokens; }
};

// An initializer on its way into a weight: nothing of it is read.
struct Provenance {
  ir::Array source;         // with an origin
  bool transposed = false;  // of its two dims
  Shape shape;              // after that
  // Elements are (code - zero) * scale where the source is quantised.
  std::optional<ir::Array> scales;
  std::optional<ir::Array> zeros;
  int64_t axis = 0;   // of `source` before transposing; scales of one element have none
  int64_t block = 0;  // elements of one scale along `axis`; 0: one scale per index of `axis`
  int bits = 0;       // of a packed source (MatMulNBits); 0: the element type says it
};

// Elements that do not depend on ids, weights times activations or the cache.
struct Known {
  std::vector<ir::Array> arrays;    // one where all worlds agree, else one per world
  std::function<ir::Array()> make;  // in place of `arrays` until somebody looks (at(…))
  int pending = 0;                  // as many of them does `make` call, one inside the other
  std::shared_ptr<const Provenance> from;
  // Rows of a table, chosen by constants: Gather(table, indices).
  std::shared_ptr<const Known> table;
  std::shared_ptr<const Known> rows;
  bool by_length = false;  // made of what the graph chooses by length
  // What `exact_angles` found it to turn by, at far positions too.
  std::shared_ptr<const std::vector<double>> frequencies;

  bool uniform() const { return make != nullptr || arrays.size() == 1; }
  const ir::Array& at(size_t world);
};

// Elements of activations and caches, as symbols per layout world.
struct View {
  std::vector<ir::Array> elements;
  // A view times one number keeps what it was made of.
  std::shared_ptr<const View> root;
  double factor = 1.0;
};

// A function of numbers; of a Func of one, applied to every element of a view.
struct Expr {
  enum class Op : uint8_t {
    kX,
    kConst,
    kAdd,
    kSub,
    kMul,
    kDiv,
    kPow,
    kMin,
    kMax,
    kNeg,
    kSqrt,
    kExp,
    kLog,
    kTanh,
    kSigmoid,
    kErf,
    kAbs,
    kRecip,
    kRelu,
    kRound,
    kFloor,
    kSin,
    kCos,
    kCeil,
    kLess,   // 1 or 0
    kEqual,  // 1 or 0
    kWhere,  // a != 0 ? b : c
  };
  Op op = Op::kX;
  double value = 0;  // kConst: it; kX: which number, where a function has several
  std::shared_ptr<const Expr> a, b, c;
  uint32_t size = 1;  // nodes, as often as they are read
};
using ExprPtr = std::shared_ptr<const Expr>;
// Longer functions are written in parts: graphs may nest them as deep as they have nodes.
inline constexpr uint32_t kMaxExprSize = 64;
double evaluate(const Expr& expr, double x);
ExprPtr expr_x(int which = 0);
ExprPtr expr_const(double value);
ExprPtr expr(Expr::Op op, ExprPtr a, ExprPtr b = nullptr, ExprPtr c = nullptr);
// f of what `numbers` are, in place of numbers.
ExprPtr substitute(const ExprPtr& f, const std::vector<ExprPtr>& numbers);

struct Func {
  std::shared_ptr<const View> x;
  ExprPtr f;
};

// One number per row of the last axis, on its way to a norm.
struct Stat {
  enum class Kind : uint8_t { kMean, kMeanSquare, kVariance };
  enum class Form : uint8_t { kRaw, kRoot, kInverseRoot };
  std::shared_ptr<const View> x;
  double scale = 1;  // of x
  Kind kind = Kind::kMean;
  Form form = Form::kRaw;
  double eps = 0;
};
// x minus the mean of its row; squared where said.
struct Centered {
  std::shared_ptr<const View> x;
  double scale = 1;  // of x
  bool squared = false;
};

// One q k^T.
struct Product {
  std::vector<ir::Array> q;   // per layout world [..., tokens, dim]
  std::vector<ir::Array> k;   // [..., dim, positions]
  std::vector<Shape> shapes;  // of the product, per world
};

// factor * q k^T, capped, plus a bias; then, where `normalised`, softmax over the last axis.
struct Scores {
  std::shared_ptr<const Product> product;
  std::vector<ir::Array> elements;  // symbols of the product's base per layout world
  double factor = 1.0;
  double softcap = 0.0;
  bool capping = false;  // between the division and the multiplication of a softcap
  // Added before softmax, per world, of a shape that broadcasts to the scores'; empty: nothing.
  std::vector<ir::Array> bias;
  bool normalised = false;
  // Per layout world: what joins each row's softmax besides its keys, of a shape that broadcasts to
  // the scores' with one column; empty: nothing.
  std::vector<ir::Array> sinks;
  bool sink_column = false;  // the last column of the value's shape is theirs
  bool row_max = false;      // the largest of each row alone, to be taken off again
  bool is_nan_test = false;  // IsNaN(probabilities): nowhere true
};

// x times one number: what norms take means of.
struct ScaledView {
  std::shared_ptr<const View> x;
  double scale = 1;
  friend bool operator==(const ScaledView&, const ScaledView&) = default;
};

// A cache of the file that no node has read yet. Its symbols are made when one does: those of all
// static caches together may take more memory than there is.
struct Unread {
  int32_t base = -1;
};

struct Opaque {
  std::string reason;
};

struct Value {
  ir::ElementType type = ir::ElementType::kUndefined;
  std::vector<Shape> shapes;  // per world
  std::variant<Opaque, std::shared_ptr<Known>, std::shared_ptr<const View>,
               std::shared_ptr<const Func>, std::shared_ptr<const Stat>,
               std::shared_ptr<const Centered>, std::shared_ptr<const Scores>,
               std::shared_ptr<const Unread>>
      detail;

  template <class T>
  const T* get() const {
    const auto* p = std::get_if<std::shared_ptr<const T>>(&detail);
    return p == nullptr ? nullptr : p->get();
  }
  Known* known() const {
    const auto* p = std::get_if<std::shared_ptr<Known>>(&detail);
    return p == nullptr ? nullptr : p->get();
  }
  std::shared_ptr<const View> view() const {
    const auto* p = std::get_if<std::shared_ptr<const View>>(&detail);
    return p == nullptr ? nullptr : *p;
  }
  bool is_opaque() const { return std::holds_alternative<Opaque>(detail); }
  const std::string& reason() const { return std::get<Opaque>(detail).reason; }
};

}  // namespace kvern::passes::token_form
