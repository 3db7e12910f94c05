#include "compile/passes/token_form/no_rule.h"

#include <algorithm>

namespace kvern::passes::token_form {
namespace {

constexpr const char* kMixes =
    "it mixes tokens, and a batch of several sequences must be able to compute every token alone: "
    "it cannot be converted";
constexpr const char* kConvolution =
    "it is a convolution over the sequence, as short-convolution and state-space layers have: not "
    "supported yet";
constexpr const char* kRecurrence =
    "it is a recurrence over the sequence, as recurrent and state-space layers have: not supported "
    "yet";
constexpr const char* kChooses =
    "it chooses by activations, as mixtures of experts do: not supported yet";
constexpr const char* kFeatures = "it is not supported yet on the features of activations";

struct Line {
  std::string_view domain;
  std::string_view op;
  const char* reason;
};

constexpr std::string_view kMicrosoft = "com.microsoft";

constexpr Line kLines[] = {
    {"", "ArgMax", kChooses},
    {"", "ArgMin", kChooses},
    {"", "AveragePool", kMixes},
    {"", "CausalConvWithState", kConvolution},
    {"", "Compress", kChooses},
    {"", "Conv", kConvolution},
    {"", "ConvTranspose", kConvolution},
    {"", "CumProd", kMixes},
    {"", "CumSum", kMixes},
    {"", "GRU", kRecurrence},
    {"", "GlobalAveragePool", kMixes},
    {"", "GlobalMaxPool", kMixes},
    {"", "Hardmax", kChooses},
    {"", "LSTM", kRecurrence},
    {"", "LinearAttention", kRecurrence},
    {"", "Loop", kRecurrence},
    {"", "MaxPool", kMixes},
    {"", "NonZero", kChooses},
    {"", "OneHot", kChooses},
    {"", "Pad", kMixes},
    {"", "RNN", kRecurrence},
    {"", "ReverseSequence", kMixes},
    {"", "Scan", kRecurrence},
    {"", "Scatter", kChooses},
    {"", "TopK", kChooses},
    {"", "Unique", kChooses},
    {kMicrosoft, "FusedConv", kConvolution},
    {kMicrosoft, "MatMulBnb4",
     "its weight is in the 4 bits of bitsandbytes, which are not supported: quantise into "
     "MatMulNBits, or export the floats and quantise at build"},
    {kMicrosoft, "MoE", kChooses},
    {kMicrosoft, "QMoE", kChooses},
};

// CumSum, CumProd and Pad of the last axis alone.
bool stays_in_features(const RuleCall& call) {
  const auto rank = static_cast<int64_t>(call.in(0).shapes.at(0).size());
  const auto whole = [&](size_t i) -> std::vector<int64_t> {
    if (!call.has(i) || call.in(i).known() == nullptr || !call.in(i).known()->uniform()) return {};
    return call.in(i).known()->at(0).to_i64();
  };
  const std::vector<int64_t> given = whole(1);
  if (call.node.op != "Pad") {
    return given.size() == 1 && (given[0] == -1 || given[0] == rank - 1);
  }
  if (call.has(3) || given.size() != static_cast<size_t>(2 * rank)) return false;
  for (int64_t i = 0; i < 2 * rank; ++i) {
    if (i % rank != rank - 1 && given[static_cast<size_t>(i)] != 0) return false;
  }
  return true;
}

}  // namespace

std::string why_no_rule(const RuleCall& call) {
  const auto* line = std::find_if(std::begin(kLines), std::end(kLines), [&](const Line& l) {
    return l.domain == call.node.domain && l.op == call.node.op;
  });
  if (line == std::end(kLines)) return "";
  const std::string_view op = line->op;
  const bool along_axis = op == "CumSum" || op == "CumProd" || op == "Pad";
  return along_axis && stays_in_features(call) ? kFeatures : line->reason;
}

}  // namespace kvern::passes::token_form
