// Any bytes may be a saved context: parsing them ends in an Error that blames the file, or in
// tokens and pages that lie inside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kvern/error.h"
#include "run/engine/saved_context.h"

namespace {

kvern::engine::ContextShape shape() {
  kvern::engine::ContextShape out;
  out.plan_name = "fuzz";
  out.plan_fingerprint = 1;
  out.layout_hash = 2;
  out.vocabulary_size = 50;
  out.max_context_length = 64;
  out.groups = {{100, 4, 0}, {100, 4, 6}};
  out.page_bytes = {16, 24};
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kvern::engine::ContextShape kShape = shape();
  try {
    const kvern::engine::SavedContext context = kvern::engine::parse_saved_context(
        std::as_bytes(std::span(data, size)), "fuzz", kShape, /*check_sums=*/false);
    uint8_t sum = 0;
    for (const kvern::engine::SavedContext::Pages& pages : context.pages) {
      for (const std::byte byte : pages.bytes) sum ^= static_cast<uint8_t>(byte);
    }
    for (const int32_t id : context.ids) {
      if (id < 0 || id >= kShape.vocabulary_size) std::abort();
    }
    const volatile uint8_t keep = sum;
    static_cast<void>(keep);
  } catch (const kvern::InternalError&) {
    std::abort();  // a file is never our bug
  } catch (const kvern::Error&) {
    return 0;
  }
  return 0;
}
