// What a file is refused with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compile/import/onnx/reader.h"
#include "kvern/error.h"
#include "tests/compile/import/onnx_writer.h"

namespace kvern::import::onnx {

// The message of the Error of that code that `read` throws; "" and a failure when it does not.
template <class Read>
std::string refusal_of(Code code, Read read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(code_name(error.code()), std::string(code_name(code))) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "it was read";
  return "";
}

inline std::string refusal(const Msg& model, Code code = Code::kInvalidModel) {
  return refusal_of(code, [&] { read_onnx_bytes(bytes_of(model.bytes), "t.onnx"); });
}

inline ir::TensorGraph graph_of(const Msg& graph, int64_t opset_version = 18) {
  return read_onnx_bytes(bytes_of(model(graph, opset_version).bytes), "t.onnx").model.graph;
}

}  // namespace kvern::import::onnx
