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

}  // namespace kvern::cli
