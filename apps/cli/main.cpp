// kvern: compiles a language model once and runs it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <new>
#include <sstream>

#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/verb.h"
#include "kvern/error.h"

namespace kvern::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"build", "Compile a model into a plan",
     "  kvern build model.gguf -o model.plan\n"
     "  kvern build model_folder/ -o small.plan --weights int4 --kv int8\n"
     "  kvern build model.onnx -o model.plan --report report.json\n"
     "  kvern build int8.onnx -o int8.plan --dynamic-quant per-token --twin float.onnx\n"
     "  kvern build synthetic:config.json -o shape.plan --weights int8 --seed 1\n",
     setup_build},
    {"run", "Answer a prompt from a plan or a model",
     "  kvern run model.plan -p \"Once upon a time\" -n 64\n"
     "  kvern run model.gguf --chat -p \"Why is the sky blue?\"\n"
     "  kvern run model.onnx --prompt-ids 1,2,3 -n 16\n"
     "  echo \"A mill is\" | kvern run model.plan - --json\n",
     setup_run},
    {"chat", "Talk with a model",
     "  kvern chat model.plan\n"
     "  kvern chat onnx_folder/\n"
     "  kvern chat model.gguf --system \"Answer in one sentence.\" --temperature 0.7 --seed 1\n",
     setup_chat},
    {"tokenize", "Show a text's tokens, or the text of tokens",
     "  kvern tokenize model.plan -p \"Once upon a time\" --json\n"
     "  kvern tokenize model.plan --decode 1,2,3\n",
     setup_tokenize},
    {"size", "Propose context length, pages and memory for a load",
     "  kvern size model.plan --trace lengths.jsonl\n"
     "  kvern size model.plan --trace lengths.jsonl --memory 16G --json\n"
     "lengths.jsonl: a line per request, {\"prompt_tokens\": 812, \"answer_tokens\": 96}\n",
     setup_size},
    {"inspect", "Show what a plan holds and what the build did",
     "  kvern inspect model.plan\n"
     "  kvern inspect model.plan --why layers.0.attn.qkv\n"
     "  kvern inspect model.plan --graph\n"
     "  kvern inspect model.plan --json\n",
     setup_inspect},
    {"verify", "Check every byte of a plan", "  kvern verify model.plan\n", setup_verify},
    {"run-graph", "Run an ONNX graph as it is written, from .npz to .npz",
     "  kvern run-graph model.onnx --inputs x.npz -o y.npz\n"
     "  kvern run-graph model_folder/ --inputs x.npz -o y.npz --also hidden --json\n"
     "  kvern run-graph model.onnx --opset-info\n"
     "x.npz: numpy.savez(\"x.npz\", input_ids=..., attention_mask=...)\n",
     setup_run_graph},
    {"bench", "Measure prefill and decoding, with the share of memory bandwidth",
     "  kvern bench model.plan\n"
     "  kvern bench model.plan -p 512 -n 128 -b 1,8 -r 5 -o json\n",
     setup_bench},
    {"doctor", "Show what this machine offers", "  kvern doctor --json\n", setup_doctor},
    {"completion", "Print a script that completes kvern's words in a shell",
     "  source <(kvern completion bash)\n"
     "  kvern completion fish > ~/.config/fish/completions/kvern.fish\n",
     setup_completion},
};

int code_of(const Error& error) {
  switch (error.code()) {
    case Code::kInvalidArgument:
      return kUsage;
    case Code::kInvalidModel:
    case Code::kInvalidPlan:
    case Code::kInvalidRequest:
    case Code::kUnsupported:
    case Code::kNotFound:
      return kBadInput;
    case Code::kIo:
    case Code::kOutOfMemory:
    case Code::kDevice:
    case Code::kInternal:
      return kFailed;
  }
  return kFailed;
}

int run_verb(const std::function<int()>& action) {
  try {
    return action();
  } catch (const Interrupted&) {
    print_error("interrupted");
    return kInterrupted;
  } catch (const ClosedPipe&) {
    return kOk;  // the reader had enough, which is its right
  } catch (const Error& error) {
    print_error(error.what());
    return code_of(error);
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return kFailed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}

// CLI11 says "a subcommand is required" of an absent verb and of a misspelt one alike.
bool names_a_verb(int argc, char** argv) {
  std::string verbs;
  for (const Verb& verb : kVerbs) {
    if (argc > 1 && std::string_view(argv[1]) == verb.name) return true;
    verbs += (verbs.empty() ? "" : ", ") + std::string(verb.name);
  }
  if (argc > 1 && argv[1][0] == '-') return true;  // an option of kvern itself
  print_error((argc > 1 ? "unknown verb '" + std::string(argv[1]) + "'" : "a verb is wanted") +
              "; verbs are " + verbs + ". See kvern --help");
  return false;
}

int run(int argc, char** argv) {
  if (!names_a_verb(argc, argv)) return kUsage;
  CLI::App app("Kvern compiles a decoder language model once and runs it from one binary.",
               "kvern");
  app.set_version_flag("--version", KVERN_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 ok, 1 failed, 2 wrong command line, 3 model, plan or request refused,\n"
      "130 interrupted.\n"
      "`kvern VERB --help` shows a verb's options and examples.");
  std::function<int()> action;
  for (const Verb& verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->footer(std::string("Examples:\n") + verb.examples);
    sub->callback([&action, run_it = verb.setup(*sub)] { action = run_it; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    if (code == 0) return run_verb([&] { return print(out.str()), kOk; });
    print_error(err.str().substr(0, err.str().find_last_not_of('\n') + 1));
    return kUsage;
  }
  return run_verb(action);
}

}  // namespace

std::span<const Verb> all_verbs() {
  return kVerbs;
}

}  // namespace kvern::cli

int main(int argc, char** argv) {
  // A closed pipe is reported by write(), where it can be told from a full disk.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the size limit is an error like a full disk
  kvern::cli::catch_interrupts();
  return kvern::cli::run(argc, argv);
}
