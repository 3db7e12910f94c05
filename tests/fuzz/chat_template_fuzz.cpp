// Templates come with model files: any text must end in a rendered chat or an Error, within its
// caps.
#include <cstdint>
#include <string>

#include "kvern/error.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A small budget, so that what the caps must stop is stopped within one run of the fuzzer.
  const kvern::text::TemplateLimits limits{
      .max_steps = 100'000, .max_output_bytes = 1 << 20, .max_depth = 200};
  kvern::text::TemplateInput input;
  input.messages = {{"system", "Be brief."}, {"user", "Why does a mill turn?"}};
  input.unix_time_s = 0;
  try {
    const kvern::text::ChatTemplate chat(std::string(reinterpret_cast<const char*>(data), size),
                                         limits);
    chat.render(input);
  } catch (const kvern::InternalError&) {
    throw;
  } catch (const kvern::Error&) {
    return 0;
  }
  return 0;
}
