#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/cli/output.h"
#include "apps/cli/verb.h"

namespace kvern::cli {
namespace {

struct VerbWords {
  std::string name;
  std::string summary;
  std::vector<std::string> options;  // "--kv"
};

std::vector<VerbWords> all_words() {
  std::vector<VerbWords> out;
  for (const Verb& verb : all_verbs()) {
    CLI::App app;
    verb.setup(app);
    VerbWords& words = out.emplace_back(VerbWords{verb.name, verb.summary, {"--help"}});
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (name != "help") words.options.push_back("--" + name);
      }
    }
  }
  return out;
}

// Verbs first, then the verb's options, else files.
std::string bash() {
  std::string verbs, cases;
  for (const VerbWords& verb : all_words()) {
    verbs += (verbs.empty() ? "" : " ") + verb.name;
    cases += fmt::format("    {}) words=\"{}\" ;;\n", verb.name, fmt::join(verb.options, " "));
  }
  return fmt::format(R"(_kvern() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=""
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _kvern kvern
)",
                     verbs, cases);
}

std::string zsh() {
  std::string verbs, cases;
  for (const VerbWords& verb : all_words()) {
    verbs += fmt::format("    '{}:{}'\n", verb.name, verb.summary);
    cases += fmt::format("    {}) options=({}) ;;\n", verb.name, fmt::join(verb.options, " "));
  }
  return fmt::format(R"(#compdef kvern
_kvern() {{
  local -a verbs options
  verbs=(
{}  )
  if ((CURRENT == 2)); then
    _describe 'verb' verbs
    return
  fi
  case $words[2] in
{}  esac
  if [[ $words[CURRENT] == -* ]]; then
    compadd -- $options
  else
    _files
  fi
}}
compdef _kvern kvern
)",
                     verbs, cases);
}

std::string fish() {
  std::string out;
  for (const VerbWords& verb : all_words()) {
    out += fmt::format("complete -c kvern -n __fish_use_subcommand -f -a {} -d \"{}\"\n", verb.name,
                       verb.summary);
    for (const std::string& option : verb.options) {
      out += fmt::format("complete -c kvern -n '__fish_seen_subcommand_from {}' -l {}\n", verb.name,
                         option.substr(2));
    }
  }
  return out;
}

}  // namespace

std::function<int()> setup_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell] {
    print(*shell == "bash" ? bash() : *shell == "zsh" ? zsh() : fish());
    return kOk;
  };
}

}  // namespace kvern::cli
