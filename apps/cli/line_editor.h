// One line from a person: with editing and history on a terminal, as it comes elsewhere.
#pragma once

#include <memory>
#include <string>

namespace kvern::cli {

class LineEditor {
 public:
  enum class Outcome { kLine, kInterrupted, kEnd };  // a line; Ctrl-C; Ctrl-D or the end of input

  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // `prompt` is shown on a terminal only. The line comes without its newline.
  Outcome read(const std::string& prompt, std::string& line);
  bool interactive() const { return interactive_; }

 private:
  struct State;
  bool interactive_;
  std::unique_ptr<State> state_;
};

}  // namespace kvern::cli
