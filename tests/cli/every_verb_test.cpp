// Every verb against the world: a wrong flag, a wrong file, a reader that leaves, a full standard
// output, Ctrl-C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/cli/process.h"
#include "tests/compile/import/onnx_writer.h"

namespace kvern::cli_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string& plan() {
  static const std::string path = [] {
    const std::string made = temp_path("every_verb.plan");
    const Outcome built = run({"build", KVERN_TEST_DATA "/golden/tiny_llama_q.gguf", "-o", made});
    EXPECT_EQ(built.exit_code, 0) << built.err;
    return made;
  }();
  return path;
}

// y = x + w, in a file of its own.
const std::string& graph() {
  namespace onnx = kvern::import::onnx;
  static const onnx::TempFolder folder;
  static const std::string path = folder.write("sum.onnx", onnx::model(onnx::add_graph()).bytes);
  return path;
}

struct Good {
  const char* verb;
  // A command line that works on `file`; empty: the verb takes none.
  std::function<std::vector<std::string>(const std::string& file)> args;
  bool takes_file = true;
  std::string input = {};
};

std::vector<Good> good_commands() {
  const std::string trace = temp_path("lengths.jsonl");
  write_file(trace, "{\"prompt_tokens\": 100, \"answer_tokens\": 20}\n");
  using Args = std::vector<std::string>;
  return {
      {"build",
       [](auto& f) {
         return Args{"build", f, "-o", temp_path("again.plan"), "--json"};
       }},
      {"run", [](auto& f) { return Args{"run", f, "-p", "hello", "-n", "400", "--ignore-eos"}; }},
      {"chat",
       [](auto& f) {
         return Args{"chat", f, "-n", "400"};
       },
       true, "hello\nagain\n"},
      {"tokenize",
       [](auto& f) {
         return Args{"tokenize", f, "-p", "hello there"};
       }},
      {"size", [trace](auto& f) { return Args{"size", f, "--trace", trace, "--memory", "1G"}; }},
      {"inspect",
       [](auto& f) {
         return Args{"inspect", f};
       }},
      {"verify",
       [](auto& f) {
         return Args{"verify", f};
       }},
      {"run-graph",
       [](auto& f) {
         return Args{"run-graph", f, "--opset-info"};
       }},
      {"bench",
       [](auto& f) { return Args{"bench", f, "-p", "16", "-n", "8", "-d", "8", "-r", "1"}; }},
      {"doctor", [](auto&) { return Args{"doctor"}; }, false},
      {"completion",
       [](auto&) {
         return Args{"completion", "bash"};
       },
       false},
  };
}

std::string file_for(const Good& good) {
  if (std::string(good.verb) == "run-graph") return graph();
  return std::string(good.verb) == "build" ? KVERN_TEST_DATA "/golden/tiny_llama_q.gguf" : plan();
}

TEST(CliEveryVerb, WorksAsTheOthersExpect) {
  for (const Good& good : good_commands()) {
    const Outcome outcome = run(Command{.args = good.args(file_for(good)), .input = good.input});
    EXPECT_EQ(outcome.exit_code, 0) << good.verb << ": " << outcome.err;
  }
}

TEST(CliEveryVerb, NamesAWrongFlag) {
  for (const Good& good : good_commands()) {
    std::vector<std::string> args = good.args(file_for(good));
    args.push_back("--frobnicate");
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.exit_code, 2) << good.verb << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("--frobnicate")) << good.verb;
    EXPECT_THAT(outcome.err, ::testing::StartsWith("kvern: ")) << good.verb;
    EXPECT_EQ(outcome.out, "") << good.verb;
  }
}

TEST(CliEveryVerb, NamesAWrongFile) {
  const std::string text = temp_path("no_model.txt");
  write_file(text, "This is neither a model nor a plan.\n");
  for (const Good& good : good_commands()) {
    if (!good.takes_file) continue;
    for (const std::string& wrong : {text, temp_path("absent"), temp_folder()}) {
      const Outcome outcome = run(Command{.args = good.args(wrong), .input = good.input});
      EXPECT_EQ(outcome.exit_code, 3) << good.verb << " " << wrong << ": " << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(wrong)) << good.verb;
      // `build --json` gives the reason as JSON too.
      const char* begin = good.verb == std::string("build") ? "{\n \"status\": \"refused\"" : "";
      EXPECT_EQ(outcome.out.substr(0, std::strlen(begin)), begin) << good.verb;
      EXPECT_EQ(outcome.out.empty(), *begin == '\0') << good.verb;
    }
  }
}

TEST(CliEveryVerb, FailsOnAFullStandardOutput) {
  for (const Good& good : good_commands()) {
    const Outcome outcome = run(Command{
        .args = good.args(file_for(good)), .input = good.input, .stdout_path = "/dev/full"});
    if (std::string(good.verb) == "verify" && outcome.exit_code == 0) continue;  // may be silent
    EXPECT_EQ(outcome.exit_code, 1) << good.verb << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("No space left")) << good.verb;
    EXPECT_EQ(run(Command{.args = {good.verb, "--help"}, .stdout_path = "/dev/full"}).exit_code, 1)
        << good.verb;
  }
}

TEST(CliEveryVerb, EndsQuietlyWhenTheReaderLeaves) {
  for (const Good& good : good_commands()) {
    const Outcome outcome = run(Command{.args = good.args(file_for(good)),
                                        .input = good.input,
                                        .close_after_output_bytes = 0,
                                        .timeout_s = 60});
    EXPECT_FALSE(outcome.timed_out) << good.verb;
    EXPECT_EQ(outcome.exit_code, 0) << good.verb << ": " << outcome.err;
    EXPECT_THAT(outcome.err, Not(HasSubstr("terminate called"))) << good.verb;
  }
}

TEST(CliEveryVerb, EndsAtCtrlC) {
  for (const Good& good : good_commands()) {
    for (const double at_s : {0.0, 0.01, 0.05}) {
      const Outcome outcome = run(Command{.args = good.args(file_for(good)),
                                          .input = good.input,
                                          .interrupt_after_s = at_s,
                                          .timeout_s = 60});
      EXPECT_FALSE(outcome.timed_out) << good.verb;
      // 130; 0 when it was done, or when chat took it as the end of an answer.
      EXPECT_THAT(outcome.exit_code, AnyOf(0, 130)) << good.verb << outcome.err;
      EXPECT_THAT(outcome.err, Not(HasSubstr("terminate called"))) << good.verb;
    }
  }
}

}  // namespace
}  // namespace kvern::cli_test
