#include "compile/eval/tensor/node_guard.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <string_view>

#include "kvern/error.h"

namespace kvern::eval {
namespace {
constexpr std::string_view kPrefix = "onnx: ";
}

void rethrow_naming(const ir::TensorNode& node) {
  try {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    std::string_view message = error.what();
    if (message.find("node '") != std::string_view::npos) throw;
    if (message.starts_with(kPrefix)) message.remove_prefix(kPrefix.size());
    throw Error(error.code(), fmt::format("{}{}: {}", kPrefix, node.who(), message));
  } catch (const std::bad_alloc&) {
    throw Error(Code::kOutOfMemory, fmt::format("onnx: {}: there is no memory left", node.who()));
  } catch (const std::exception& error) {
    throw Error(Code::kInvalidModel, fmt::format("onnx: {}: its inputs have impossible sizes ({})",
                                                 node.who(), error.what()));
  }
}

}  // namespace kvern::eval
