// The text form of graphs (plans carry it, tests write it): an Error, or a graph that prints to a
// text which parses and prints to the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compile/ir/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string printed;
  try {
    printed = kvern::ir::print(kvern::ir::parse(text));
  } catch (const kvern::Error&) {
    return 0;
  }
  if (kvern::ir::print(kvern::ir::parse(printed)) != printed) std::abort();
  return 0;
}
