// `kvern chat` as a person uses it, on a pseudo-terminal, and as a script does, through a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "tests/cli/process.h"
#include "tests/cli/terminal.h"

namespace kvern::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCtrlC = "\x03";
constexpr const char* kCtrlD = "\x04";
constexpr const char* kLeft = "\x1b[D";

class CliChat : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Outcome built = run({"build", KVERN_TEST_DATA "/golden/tiny_llama_q.gguf", "-o", plan()});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  static std::string plan() { return temp_path("chat.plan"); }
  static std::vector<std::string> args(std::vector<std::string> more = {}) {
    std::vector<std::string> out = {"chat", plan(), "-n", "8"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static Json conversation(const std::string& path) {
    return parse_json(read_file(path), path, Code::kInvalidArgument).at("messages");
  }
};

TEST_F(CliChat, APersonAsksCorrectsSavesAndLeaves) {
  const std::string file = temp_path("talk.json");
  Terminal terminal(args());
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.screen();
  // The cursor goes back and a letter is put in: "hello".
  terminal.type(std::string("helo") + kLeft + "l\r");
  ASSERT_TRUE(terminal.wait_for("tokens/s]")) << terminal.screen();
  terminal.type("and then?\r");
  ASSERT_TRUE(terminal.wait_for("tokens/s]")) << terminal.screen();
  terminal.type("/save " + file + "\r");
  ASSERT_TRUE(terminal.wait_for("saved 4 messages")) << terminal.screen();
  terminal.type("/exit\r");
  EXPECT_EQ(terminal.wait_exit(), 0) << terminal.screen();
  const Json messages = conversation(file);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].at("role"), "user");
  EXPECT_EQ(messages[0].at("content"), "hello");
  EXPECT_EQ(messages[1].at("role"), "assistant");
  EXPECT_EQ(messages[2].at("content"), "and then?");
  EXPECT_TRUE(std::filesystem::exists(file + ".kv"));
}

TEST_F(CliChat, CtrlCDropsTheLineAndCtrlDLeaves) {
  Terminal terminal(args());
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type(std::string("never sent") + kCtrlC);
  ASSERT_TRUE(terminal.wait_for("^C")) << terminal.screen();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.screen();
  terminal.type(kCtrlC);
  ASSERT_TRUE(terminal.wait_for("Ctrl-D or /exit")) << terminal.screen();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.screen();
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.wait_exit(), 0) << terminal.screen();
  EXPECT_THAT(terminal.screen(), Not(HasSubstr("tokens/s]")));
}

TEST_F(CliChat, CommandsThatAreNoneAreNamedAndTheTalkGoesOn) {
  Terminal terminal(args());
  ASSERT_TRUE(terminal.wait_for("> "));
  for (const char* wrong : {"/frobnicate", "/load /no/such/talk", "/save", "/retry"}) {
    terminal.type(std::string(wrong) + "\r");
    ASSERT_TRUE(terminal.wait_for("kvern: ")) << wrong << terminal.screen();
    ASSERT_TRUE(terminal.wait_for("> ")) << wrong << terminal.screen();
  }
  terminal.type("hello\r");
  EXPECT_TRUE(terminal.wait_for("tokens/s]")) << terminal.screen();
  terminal.type("/help\r");
  EXPECT_TRUE(terminal.wait_for("/system TEXT")) << terminal.screen();
}

// What a script sends line by line; only answers come out.
Outcome talk(const std::string& lines, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"chat", temp_path("chat.plan"), "-n", "8", "-q"};
  words.insert(words.end(), more.begin(), more.end());
  return run(Command{.args = words, .input = lines});
}

TEST_F(CliChat, ScriptsGetAnswersAlone) {
  const Outcome outcome = talk("hello\nand then?\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("> ")));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CliChat, ASavedTalkGoesOnAsIfItHadNeverStopped) {
  const std::string file = temp_path("whole.json");
  ASSERT_EQ(talk("/system be brief\nhello\nand then?\n/save " + file + "\n").exit_code, 0);
  const std::string half = temp_path("half.json");
  ASSERT_EQ(talk("/system be brief\nhello\n/save " + half + "\n").exit_code, 0);
  const Outcome rest = talk("and then?\n/save " + half + "\n", {"--load", half});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(conversation(half), conversation(file));
  ASSERT_EQ(conversation(file).size(), 5u);
  EXPECT_EQ(conversation(file)[0].at("content"), "be brief");
}

TEST_F(CliChat, ALoadedContextIsNotComputedAgain) {
  const std::string file = temp_path("loaded.json");
  ASSERT_EQ(talk("/system be brief\nhello\n/save " + file + "\n").exit_code, 0);
  Terminal terminal(args({"--load", file}));
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.screen();
  terminal.type("and then?\r");
  ASSERT_TRUE(terminal.wait_for("tokens/s]")) << terminal.screen();
  EXPECT_THAT(terminal.screen(), HasSubstr(" cached"));
  EXPECT_THAT(terminal.screen(), Not(HasSubstr(" 0 cached")));
}

TEST_F(CliChat, RetryAnswersTheSameQuestionAgain) {
  const std::string file = temp_path("retry.json");
  ASSERT_EQ(talk("hello\n/retry\n/save " + file + "\n").exit_code, 0);
  const Json messages = conversation(file);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].at("content"), "hello");
}

// What somebody keeps there is not /save's to replace.
TEST_F(CliChat, SaveReplacesNothingButTalks) {
  const std::string notes = temp_path("notes.txt"), link = temp_path("link.json");
  write_file(notes, "precious");
  std::filesystem::create_symlink(notes, link);
  for (const std::string& taken : {notes, link, plan(), temp_folder(), std::string("/dev/null")}) {
    const Outcome outcome = talk("hello\n/save " + taken + "\n");
    EXPECT_NE(outcome.exit_code, 0) << taken;
    EXPECT_THAT(outcome.err, HasSubstr(taken));
  }
  EXPECT_EQ(read_file(notes), "precious");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const std::string talk_file = temp_path("again.json");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(talk("hello\n/save " + talk_file + "\n").exit_code, 0);
}

TEST_F(CliChat, DamagedTalksAreRefused) {
  const std::string file = temp_path("damaged.json");
  for (const char* text : {"", "{", "[]", "{\"format\": \"kvern-chat-1\"}",
                           "{\"format\": \"kvern-chat-1\", \"messages\": [{\"role\": 1}]}"}) {
    write_file(file, text);
    const Outcome outcome = talk("hello\n", {"--load", file});
    EXPECT_NE(outcome.exit_code, 0) << text;
    EXPECT_THAT(outcome.err, HasSubstr(file)) << text;
  }
}

TEST_F(CliChat, AFullDiskLosesNothing) {
  const Outcome outcome = talk("hello\n/save /dev/full/talk\n");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("/dev/full/talk"));
}

TEST(SlowCliChat, CtrlCStopsTheAnswerAndNotTheProgram) {
  if (small_model_path().empty()) GTEST_SKIP() << "the small model is not here";
  const std::string plan = temp_path("smollm2.plan");
  ASSERT_EQ(run({"build", small_model_path(), "-o", plan}).exit_code, 0);
  Terminal terminal({"chat", plan});
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("Tell me a very long story about a mill, a river and a miller.\r");
  ASSERT_TRUE(terminal.wait_for(" the ")) << terminal.screen();  // it streams
  terminal.type(kCtrlC);
  ASSERT_TRUE(terminal.wait_for("(stopped)")) << terminal.screen();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.screen();
  terminal.type("What is 2 + 2?\r");
  ASSERT_TRUE(terminal.wait_for("tokens/s]")) << terminal.screen();
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.wait_exit(), 0) << terminal.screen();
}

}  // namespace
}  // namespace kvern::cli_test
