#include "apps/cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <iostream>

namespace kvern::cli {

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string prompt;
  bool interrupted = false;

  // The terminal is given back; the editor itself stays until the process ends, because el_end()
  // loses the names that EL_ADDFN copied.
  ~State() {
    if (editor != nullptr) {
      el_set(editor, EL_PREP_TERM, 0);
      static EditLine* kept [[maybe_unused]];
      kept = editor;
    }
    if (history != nullptr) history_end(history);
  }
  static State& of(EditLine* editor) {
    State* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return *state;
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  static unsigned char on_interrupt(EditLine* editor, int) {
    of(editor).interrupted = true;
    return CC_EOF;
  }
};

LineEditor::LineEditor()
    : interactive_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0),
      state_(std::make_unique<State>()) {
  if (!interactive_) return;
  // Characters of more than one byte need a locale that knows them.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
  state_->editor = el_init("kvern", stdin, stdout, stderr);
  if (state_->editor == nullptr) {  // a terminal that is unknown: lines as they come
    interactive_ = false;
    return;
  }
  EditLine* editor = state_->editor;
  el_set(editor, EL_CLIENTDATA, state_.get());
  el_set(editor, EL_PROMPT, &State::show_prompt);
  el_set(editor, EL_EDITOR, "emacs");
  // Ctrl-C as a key of the editor's, not as a signal: it drops the line and nothing else.
  el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
  el_set(editor, EL_ADDFN, "drop-line", "Drop the line", &State::on_interrupt);
  el_set(editor, EL_BIND, "^C", "drop-line", nullptr);
  state_->history = history_init();
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, 1000);
  el_set(editor, EL_HIST, ::history, state_->history);
}

LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::read(const std::string& prompt, std::string& line) {
  line.clear();
  if (!interactive_) return std::getline(std::cin, line) ? Outcome::kLine : Outcome::kEnd;
  state_->prompt = prompt;
  state_->interrupted = false;
  // Before the prompt shows: what is typed at once would else meet the terminal's own Ctrl-C.
  el_set(state_->editor, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = el_gets(state_->editor, &count);
  if (state_->interrupted) {
    el_reset(state_->editor);
    std::fputs("^C\n", stdout);
    std::fflush(stdout);
    return Outcome::kInterrupted;
  }
  if (text == nullptr || count <= 0) return Outcome::kEnd;
  line.assign(text, static_cast<size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    history(state_->history, &event, H_ENTER, line.c_str());
  }
  return Outcome::kLine;
}

}  // namespace kvern::cli
