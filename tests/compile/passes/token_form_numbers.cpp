// Both sides of a conversion on random ids.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "compile/eval/eval.h"
#include "compile/eval/tensor/tensor_eval.h"
#include "compile/quantize/materialize.h"
#include "tensor/float_bits.h"
#include "tests/compile/passes/token_form_case.h"

namespace kvern::passes {
namespace {

namespace fs = std::filesystem;
using Arrays = std::map<std::string, ir::Array>;

class FileWeights final : public eval::WeightProvider {
 public:
  explicit FileWeights(const std::vector<std::byte>& bytes) {
    const fs::path path = fs::temp_directory_path() / fmt::format("kvern_case_{}", ::getpid());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    files_.push_back(std::make_shared<MappedFile>(path.string()));
    fs::remove(path);  // the mapping stays
  }
  eval::HostTensor load(const ir::Graph& graph, const ir::Weight& weight) override {
    return {weight.shape, quantize::materialize_f32(graph, weight, files_), {}};
  }

 private:
  quantize::Files files_;
};

ir::Array integers(ir::ElementType type, Shape shape, const std::vector<int64_t>& values) {
  ir::Array out(type, std::move(shape));
  for (int64_t i = 0; i < out.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t value = values[at % values.size()];
    if (type == ir::ElementType::kInt64) out.mutable_as<int64_t>()[at] = value;
    if (type == ir::ElementType::kInt32) {
      out.mutable_as<int32_t>()[at] = static_cast<int32_t>(value);
    }
    if (type == ir::ElementType::kFloat) out.mutable_as<float>()[at] = static_cast<float>(value);
    if (type == ir::ElementType::kBool) out.mutable_as<uint8_t>()[at] = value != 0 ? 1 : 0;
    if (type == ir::ElementType::kDouble) out.mutable_as<double>()[at] = static_cast<double>(value);
    if (type == ir::ElementType::kFloat16) {
      out.mutable_as<uint16_t>()[at] = f32_to_f16(static_cast<float>(value));
    }
  }
  return out;
}

// The original, fed one chunk after another.
class Original {
 public:
  explicit Original(const TokenFormCase& at, const TokenForm& form) : at_(at) {
    for (const TokenSlot& slot : form.slots) {
      feeds_[slot.past_key] = slot.present_key;
      feeds_[slot.past_value] = slot.present_value;
    }
    feeds_.erase("");
  }

  // [ids, vocabulary] of the chunk.
  std::vector<float> logits(const std::vector<int64_t>& ids) {
    const bool whole = feeds_.empty();
    const auto past = static_cast<int64_t>(whole ? 0 : seen_.size());
    seen_.insert(seen_.end(), ids.begin(), ids.end());
    Arrays inputs;
    for (const ir::TensorValueId id : at_.model.graph.inputs) {
      const ir::TensorValue& value = at_.model.graph.values[static_cast<size_t>(id)];
      inputs[value.name] = input(value, whole ? seen_ : ids, past);
    }
    const Arrays outputs = eval::run_tensor_graph(at_.model.graph, inputs);
    for (const auto& [from, to] : feeds_) held_[from] = outputs.at(to);
    std::vector<float> all = outputs.at("logits").to_f32();
    const size_t width = all.size() / (whole ? seen_.size() : ids.size());
    return {all.end() - static_cast<std::ptrdiff_t>(ids.size() * width), all.end()};
  }

 private:
  ir::Array input(const ir::TensorValue& value, const std::vector<int64_t>& ids,
                  int64_t past) const {
    const auto held = held_.find(value.name);
    if (held != held_.end()) return held->second;
    const auto tokens = static_cast<int64_t>(ids.size());
    const auto declared = at_.options.inputs.find(value.name);
    const bool is_declared = declared != at_.options.inputs.end();
    const auto is = [&](const char* role) { return is_declared && declared->second == role; };
    if (value.name == "input_ids" || value.name == "tokens" || is("ids")) {
      return integers(value.type, {1, tokens}, ids);
    }
    if (value.name == "attention_mask" && value.dims.size() == 4) {
      return causal_mask(value, tokens, past);
    }
    if (value.name == "attention_mask" || is("mask"))
      return integers(value.type, {1, past + tokens}, {1});
    if (value.name.find("position") != std::string::npos || is("positions")) {
      std::vector<int64_t> positions;
      for (int64_t i = 0; i < tokens; ++i) positions.push_back(past + i);
      return integers(value.type, value.dims.size() == 1 ? Shape{tokens} : Shape{1, tokens},
                      positions);
    }
    if (ir::is_float(value.type)) return empty_cache(value);
    const std::string meaning = is_declared                        ? declared->second
                                : value.name == "use_cache_branch" ? "1"
                                                                   : "past";
    const int64_t number = meaning == "past"     ? past
                           : meaning == "total"  ? past + tokens
                           : meaning == "tokens" ? tokens
                                                 : std::stoll(meaning);
    return integers(value.type, Shape(value.dims.size(), 1), {number});
  }

  // Floats are added, others choose.
  static ir::Array causal_mask(const ir::TensorValue& value, int64_t tokens, int64_t past) {
    const bool adds = ir::is_float(value.type);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < past + tokens; ++j) {
        const bool seen = j <= past + i;
        all.push_back(adds ? (seen ? 0 : -30000) : (seen ? 1 : 0));
      }
    }
    return integers(value.type, {1, 1, tokens, past + tokens}, all);
  }

  static ir::Array empty_cache(const ir::TensorValue& value) {
    Shape shape;
    for (size_t i = 0; i < value.dims.size(); ++i) {
      shape.push_back(value.dims[i].value >= 0 ? value.dims[i].value : i == 0 ? 1 : 0);
    }
    return ir::Array(value.type, shape);
  }

  const TokenFormCase& at_;
  std::map<std::string, std::string> feeds_;
  std::vector<int64_t> seen_;
  Arrays held_;
};

}  // namespace

void expect_same_logits(const TokenFormCase& at, const TokenForm& form) {
  FileWeights weights(*at.file);
  Original original(at, form);
  eval::KvState kv;
  std::mt19937 random(11);
  int32_t position = 0;
  for (const int count : {5, 1, 3, 9}) {
    std::vector<int64_t> ids;
    eval::HostTensor ids32{{count}, {}, {}}, positions{{count}, {}, {}};
    for (int i = 0; i < count; ++i) {
      ids.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(form.vocabulary_size)));
      ids32.i32.push_back(static_cast<int32_t>(ids.back()));
      positions.i32.push_back(position++);
    }
    const std::vector<float> wanted = original.logits(ids);
    const std::vector<float> got =
        eval::run(form.graph, {{"ids", ids32}, {"positions", positions}}, weights, kv)
            .at("logits")
            .f32;
    ASSERT_EQ(got.size(), wanted.size());
    double worst = 0, largest = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(wanted[i])) << "the case's own numbers are no numbers";
      worst = std::max(worst, static_cast<double>(std::fabs(got[i] - wanted[i])));
      largest = std::max(largest, static_cast<double>(std::fabs(wanted[i])));
    }
    EXPECT_GT(largest, 1e-2) << "logits too small to compare";
    EXPECT_LT(worst, at.rounding * (1 + largest)) << count << " tokens up to position " << position;
  }
}

}  // namespace kvern::passes
