// Any bytes may be a plan: parsing them, and holding the program to kernels, weights and KV layout,
// must end in a Plan or an Error that blames the plan.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/log.h"
#include "kvern/error.h"
#include "plan/reader.h"
#include "run/exec/check_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvern::log::set_level(kvern::log::Level::kOff);
  try {
    const kvern::plan::ParsedPlan parsed =
        kvern::plan::parse_plan(std::as_bytes(std::span(data, size)), "fuzz", /*check_sums=*/false);
    kvern::exec::prepare_program(parsed.plan, /*plain_kernels=*/false);
    kvern::exec::find_logits(parsed.plan);
  } catch (const kvern::InternalError&) {
    std::abort();  // a plan is never our bug
  } catch (const kvern::Error&) {
    return 0;
  }
  return 0;
}
