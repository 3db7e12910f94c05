#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/build_options.h"
#include "apps/cli/output.h"
#include "apps/cli/prompt.h"
#include "apps/cli/verb.h"
#include "kvern/generate.h"

namespace kvern::cli {
namespace {

struct Flags {
  std::string model;
  BuildFlags build;
  PromptFlags prompt;
  std::string decode;
  bool no_special = false;
  bool parse_special = false;
  bool count = false;
  bool json = false;
};

std::string ids_line(const std::vector<int32_t>& ids) {
  return fmt::format("{}\n", fmt::join(ids, ","));
}

nlohmann::ordered_json to_json(const std::vector<int32_t>& ids, const Engine::TextTools& text) {
  nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
  for (const int32_t id : ids) pieces.push_back(text.piece(id));
  return {{"ids", ids}, {"count", ids.size()}, {"pieces", std::move(pieces)}};
}

std::vector<int32_t> encode(const Flags& flags, const Engine::TextTools& text) {
  if (flags.prompt.chat) return prompt_ids(flags.prompt, text);
  return text.encode(prompt_text(flags.prompt), !flags.no_special, flags.parse_special);
}

int tokenize(const Flags& flags) {
  const std::string plan = plan_for(flags.model, flags.build, {flags.json, false});
  const auto text = open_text_tools(plan);
  if (!flags.decode.empty()) {
    print(text->decode(parse_ids(flags.decode, "--decode")) + "\n");
    return kOk;
  }
  const std::vector<int32_t> ids = encode(flags, *text);
  if (flags.json) {
    print(to_json(ids, *text).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    print(flags.count ? fmt::format("{}\n", ids.size()) : ids_line(ids));
  }
  return kOk;
}

}  // namespace

std::function<int()> setup_tokenize(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PLAN|MODEL", flags->model,
                 "A plan, or a model that is built into the cache first")
      ->required();
  app.add_option("-p,--prompt", flags->prompt.text, "The text");
  app.add_option("-f,--file", flags->prompt.file, "Read the text from a file (-: standard input)");
  app.add_option("STDIN", flags->prompt.dash, "-: read the text from standard input");
  auto* decode = app.add_option("--decode", flags->decode, "Ids to text: 1,2,3")
                     ->excludes("-p")
                     ->excludes("-f")
                     ->excludes("STDIN");
  auto* chat =
      app.add_flag("--chat", flags->prompt.chat, "Put the text through the model's chat template")
          ->excludes(decode);
  app.add_option("--system", flags->prompt.system, "The system message, with --chat");
  app.add_flag("--no-special", flags->no_special, "Without the model's begin and end tokens")
      ->excludes(chat)
      ->excludes(decode);
  app.add_flag("--parse-special", flags->parse_special,
               "\"<|im_end|>\" in the text is that token, not its characters")
      ->excludes(chat)
      ->excludes(decode);
  auto* count =
      app.add_flag("--count", flags->count, "Print the number of tokens alone")->excludes(decode);
  app.add_flag("--json", flags->json, "Print ids and pieces as JSON")
      ->excludes(decode)
      ->excludes(count);
  add_build_flags(app, {flags, &flags->build});
  return [flags, prompt = app.get_option("-p")] {
    flags->prompt.text_given = prompt->count() > 0;
    return tokenize(*flags);
  };
}

}  // namespace kvern::cli
