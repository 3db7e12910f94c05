// The prompt of `run`: where it comes from, and its ids.
#pragma once

#include <string>
#include <vector>

#include "kvern/generate.h"

namespace kvern::cli {

struct PromptFlags {
  std::string text;    // -p
  std::string file;    // -f; "-" is standard input
  std::string ids;     // --prompt-ids 1,2,3
  std::string dash;    // a lone "-": standard input
  std::string system;  // --system, with --chat
  bool chat = false;
  bool text_given = false;
};

// Throws Error(kInvalidArgument) when there is no prompt or more than one, or for ids that are not
// numbers; Error(kNotFound | kIo) for the file.
std::vector<int32_t> prompt_ids(const PromptFlags& flags, const Engine::TextTools& text);

// The text that flags name; throws as prompt_ids.
std::string prompt_text(const PromptFlags& flags);
// "1,2,3"; `option` is named when it is something else.
std::vector<int32_t> parse_ids(const std::string& text, const std::string& option);

}  // namespace kvern::cli
