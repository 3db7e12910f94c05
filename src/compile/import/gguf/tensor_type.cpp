#include "compile/import/gguf/tensor_type.h"

namespace kvern::import::gguf {
namespace {

using ir::SourceType;

struct Numbered {
  uint32_t number;
  TensorType type;
};

constexpr Numbered kTensorTypes[] = {
    {0, {"F32", SourceType::kF32}},    {1, {"F16", SourceType::kF16}},
    {2, {"Q4_0", SourceType::kQ4_0}},  {3, {"Q4_1", SourceType::kQ4_1}},
    {6, {"Q5_0", SourceType::kQ5_0}},  {7, {"Q5_1", SourceType::kQ5_1}},
    {8, {"Q8_0", SourceType::kQ8_0}},  {9, {"Q8_1", std::nullopt}},
    {10, {"Q2_K", std::nullopt}},      {11, {"Q3_K", std::nullopt}},
    {12, {"Q4_K", SourceType::kQ4_K}}, {13, {"Q5_K", SourceType::kQ5_K}},
    {14, {"Q6_K", SourceType::kQ6_K}}, {15, {"Q8_K", std::nullopt}},
    {16, {"IQ2_XXS", std::nullopt}},   {17, {"IQ2_XS", std::nullopt}},
    {18, {"IQ3_XXS", std::nullopt}},   {19, {"IQ1_S", std::nullopt}},
    {20, {"IQ4_NL", std::nullopt}},    {21, {"IQ3_S", std::nullopt}},
    {22, {"IQ2_S", std::nullopt}},     {23, {"IQ4_XS", std::nullopt}},
    {24, {"I8", std::nullopt}},        {25, {"I16", std::nullopt}},
    {26, {"I32", std::nullopt}},       {27, {"I64", std::nullopt}},
    {28, {"F64", std::nullopt}},       {29, {"IQ1_M", std::nullopt}},
    {30, {"BF16", SourceType::kBf16}}, {34, {"TQ1_0", std::nullopt}},
    {35, {"TQ2_0", std::nullopt}},     {39, {"MXFP4", std::nullopt}},
};

}  // namespace

const TensorType* tensor_type(uint32_t number) {
  for (const Numbered& entry : kTensorTypes) {
    if (entry.number == number) return &entry.type;
  }
  return nullptr;
}

}  // namespace kvern::import::gguf
