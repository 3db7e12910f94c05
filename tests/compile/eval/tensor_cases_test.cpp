#include <gtest/gtest.h>

#include <cstdlib>

#include "kvern/error.h"
#include "tests/compile/eval/tensor_cases.h"

namespace kvern::eval {
namespace {

// com.microsoft ops against ONNX Runtime; scripts/golden/contrib_cases.py made them.
constexpr const char* kContrib = KVERN_TEST_DATA "/golden/onnx_contrib.txt";

// Another file of cases: the node tests of the onnx wheel, say. Prints what does not pass.
const char* other_cases() {
  return std::getenv("KVERN_TENSOR_CASES");
}

template <class Fn>
std::string reason_of(Fn fn) {
  try {
    return fn();
  } catch (const Error& error) {
    return error.what();
  }
}

void check_file(const std::string& path) {
  const std::vector<TensorCase> cases = read_tensor_cases(path);
  EXPECT_FALSE(cases.empty());
  for (const TensorCase& test : cases) {
    EXPECT_EQ(reason_of([&] { return run_tensor_case(test); }), "") << test.name;
    EXPECT_EQ(reason_of([&] { return infer_tensor_case(test); }), "") << test.name;
  }
}

TEST(TensorCases, ContribOpsGiveWhatOnnxRuntimeGives) {
  check_file(kContrib);
}

TEST(TensorCases, OtherFile) {
  if (other_cases() == nullptr) GTEST_SKIP() << "KVERN_TENSOR_CASES names no file";
  check_file(other_cases());
}

}  // namespace
}  // namespace kvern::eval
