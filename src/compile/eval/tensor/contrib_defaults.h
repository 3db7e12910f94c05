// Defaults of com.microsoft's operators where they are not those of the standard's operators.
#pragma once

namespace kvern::eval {

// SkipLayerNormalization and SkipSimplifiedLayerNormalization (ONNX Runtime 1.32 computes so).
inline constexpr double kSkipNormEpsilon = 1e-12;

}  // namespace kvern::eval
