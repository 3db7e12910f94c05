// Templates come with model files, conversations with requests: any texts must end in a rendered
// chat or an Error, within its caps. The input is a template; behind a 0 byte, JSON of messages;
// behind another, of tools.
#include <cstdint>
#include <string>
#include <string_view>

#include "kvern/error.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A small budget, so that what the caps must stop is stopped within one run of the fuzzer.
  const kvern::text::TemplateLimits limits{
      .max_steps = 100'000, .max_output_bytes = 1 << 20, .max_depth = 200};
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto part = [&] {
    const size_t end = rest.find('\0');
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    return std::string(text);
  };
  const std::string source = part();
  kvern::text::TemplateInput input;
  input.messages = {{"system", "Be brief."}, {"user", "Why does a mill turn?"}};
  input.messages_json = part();
  input.tools_json = part();
  input.unix_time_s = 0;
  try {
    const kvern::text::ChatTemplate chat(source, limits);
    chat.render(input);
  } catch (const kvern::InternalError&) {
    throw;
  } catch (const kvern::Error&) {
    return 0;
  }
  return 0;
}
