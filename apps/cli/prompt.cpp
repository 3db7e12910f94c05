#include "apps/cli/prompt.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace kvern::cli {
namespace {

constexpr size_t kMaxPromptBytes = size_t{64} << 20;

std::string read_all(std::istream& in, const std::string& name) {
  std::string text;
  char buffer[65536];
  while (in.read(buffer, sizeof(buffer)) || in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxPromptBytes) {
      throw Error(Code::kInvalidRequest,
                  fmt::format("the prompt from {} is longer than {} bytes", name, kMaxPromptBytes));
    }
  }
  if (in.bad()) {
    throw Error(Code::kIo, fmt::format("cannot read the prompt from {} to its end", name));
  }
  return text;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(Code::kInvalidArgument, fmt::format("the prompt '{}' is a folder", path));
  }
  if (!in) {
    throw Error(Code::kNotFound,
                fmt::format("cannot read the prompt '{}': {}", path, std::strerror(errno)));
  }
  return read_all(in, "'" + path + "'");
}

void check_one_source(const PromptFlags& flags) {
  if (!flags.dash.empty() && flags.dash != "-") {
    throw Error(Code::kInvalidArgument, fmt::format("'{}': a prompt goes behind -p, a file behind "
                                                    "-f, and - is standard input",
                                                    flags.dash));
  }
  const int sources = (flags.text_given ? 1 : 0) + (flags.file.empty() ? 0 : 1) +
                      (flags.ids.empty() ? 0 : 1) + (flags.dash.empty() ? 0 : 1);
  if (sources == 1) return;
  throw Error(Code::kInvalidArgument,
              fmt::format("{} prompts were given; exactly one of -p TEXT, -f FILE, - or "
                          "--prompt-ids is wanted",
                          sources));
}

}  // namespace

std::vector<int32_t> parse_ids(const std::string& text, const std::string& option) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  for (;;) {
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && *next != ',')) {
      throw Error(
          Code::kInvalidArgument,
          fmt::format("{} '{}': wanted numbers with commas between, as in 1,2,3", option, text));
    }
    ids.push_back(id);
    if (next == end) return ids;
    at = next + 1;
  }
}

std::string prompt_text(const PromptFlags& flags) {
  check_one_source(flags);
  if (flags.text_given) return flags.text;
  std::string text = !flags.dash.empty() || flags.file == "-" ? read_all(std::cin, "standard input")
                                                              : read_file(flags.file);
  // The newline that ends a file, or what echo prints, is no part of the prompt.
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<int32_t> prompt_ids(const PromptFlags& flags, const Engine::TextTools& text) {
  check_one_source(flags);
  if (!flags.system.empty() && !flags.chat) {
    throw Error(Code::kInvalidArgument, "--system is part of a chat; give --chat too");
  }
  if (!flags.ids.empty()) {
    if (flags.chat) {
      throw Error(Code::kInvalidArgument,
                  "--chat needs a text; --prompt-ids are taken as they are");
    }
    return parse_ids(flags.ids, "--prompt-ids");
  }
  const std::string prompt = prompt_text(flags);
  if (!flags.chat) return text.encode(prompt, /*add_special=*/true, /*parse_special=*/false);
  std::vector<ChatMessage> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", prompt});
  // The template writes its own begin and turn tokens. A prompt that spells one ("<|im_end|>")
  // would be read as one too: a person at the command line may do that; a server must not.
  return text.encode(text.apply_chat_template(messages, true), false, /*parse_special=*/true);
}

}  // namespace kvern::cli
