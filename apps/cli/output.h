// Results on standard output, progress and closing lines on standard error.
#pragma once

#include <string>
#include <string_view>

#include "kvern/types.h"

namespace kvern::cli {

// Thrown when the reader of standard output has gone.
struct ClosedPipe {};

// Writes at once, so that text streams. Throws ClosedPipe, or Error(kIo) for a full disk.
void print(std::string_view text);
void print_error(std::string_view message);
// A remark for people; left out when `quiet`.
void print_note(std::string_view message);

// "98.4 MB"
std::string show_bytes(uint64_t bytes);
// Of this process, so far.
uint64_t peak_memory_bytes();

// A line that is rewritten on a terminal; elsewhere one plain line per phase. Throws Interrupted
// from within the work after Ctrl-C.
ProgressFn progress_line(const std::string& what);

// Shows nothing, but ends the work after Ctrl-C all the same.
void progress_quietly(const Progress& progress);

}  // namespace kvern::cli
