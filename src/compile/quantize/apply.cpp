// Which storage every weight gets.
#include "base/check.h"
#include "compile/quantize/exact_format.h"
#include "compile/quantize/materialize.h"

namespace kvern::quantize {
namespace {

constexpr QuantFormat kInt8 = {DType::kI8, 32, DType::kF16, false};
constexpr QuantFormat kInt4 = {DType::kI4, 32, DType::kF16, true};

QuantFormat choose(const QuantFormat& exact, WeightChoice choice) {
  switch (choice) {
    case WeightChoice::kKeep:
      return exact;
    case WeightChoice::kF32:
      return {};
    case WeightChoice::kF16:
      return {.storage = DType::kF16};
    case WeightChoice::kBf16:
      return {.storage = DType::kBf16};
    case WeightChoice::kInt8:
      return kInt8;
    case WeightChoice::kInt4: {
      // Codes that have four bits already stay; only scales are rounded, where they are f32.
      QuantFormat format = kInt4;
      if (exact.storage == DType::kI4 && exact.group == kInt4.group) format.has_min = exact.has_min;
      return format;
    }
  }
  KVERN_CHECK(false, "weight choice {} does not exist", static_cast<int>(choice));
}

// Every part on its own: rows of a joined weight may differ in what they lose.
bool stays_exact(const ir::Graph& graph, const ir::Weight& weight, const QuantFormat& target) {
  for (const QuantFormat& part : part_formats(graph, weight)) {
    if (!holds_exactly(target, part)) return false;
  }
  return true;
}

}  // namespace

std::vector<WeightNote> apply(ir::Graph& graph, WeightChoice choice) {
  std::vector<WeightNote> notes;
  for (ir::Weight& weight : graph.weights) {
    const QuantFormat exact = exact_format(graph, weight);
    weight.storage = weight.shape.size() < 2 ? QuantFormat{} : choose(exact, choice);
    WeightNote note;
    note.name = weight.name;
    note.from = source_names(graph, weight);
    note.to = to_string(weight.storage);
    note.exact = stays_exact(graph, weight, weight.storage);
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace kvern::quantize
