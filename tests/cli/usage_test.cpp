// What a person types wrong: exit code 2 for the command line, 3 for what it names, words in both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cli/process.h"

namespace kvern::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A message for people: some words, and no trace of a crash.
auto is_message() {
  return AllOf(Not(IsEmpty()), Not(HasSubstr("terminate called")), Not(HasSubstr("what():")),
               Not(HasSubstr("Sanitizer")));
}

void expect_refused(const std::vector<std::string>& args, int exit_code, const std::string& word) {
  const Outcome outcome = run(args);
  SCOPED_TRACE(::testing::PrintToString(args));
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_THAT(outcome.err, is_message());
  EXPECT_THAT(outcome.err, HasSubstr(word));
  EXPECT_EQ(outcome.out, "");
}

constexpr const char* kVerbs[] = {"build",   "run",    "chat",  "tokenize", "size",
                                  "inspect", "verify", "bench", "doctor",   "completion"};

TEST(CliUsage, HelpNamesEveryVerb) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* verb : kVerbs) EXPECT_THAT(outcome.out, HasSubstr(verb));
}

TEST(CliUsage, EveryVerbHasHelp) {
  for (const char* verb : kVerbs) {
    const Outcome outcome = run({verb, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << verb << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(verb));
  }
}

TEST(CliUsage, NoVerbIsAUsageError) {
  const Outcome outcome = run(std::vector<std::string>{});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err + outcome.out, HasSubstr("build"));
}

TEST(CliUsage, UnknownVerbIsNamed) {
  expect_refused({"compile"}, 2, "compile");
}

TEST(CliUsage, UnknownFlagIsNamed) {
  expect_refused({"run", "x.plan", "-p", "a", "--frobnicate"}, 2, "--frobnicate");
  expect_refused({"build", "x.gguf", "-o", "x.plan", "--quick"}, 2, "--quick");
  expect_refused({"doctor", "--nope"}, 2, "--nope");
}

TEST(CliUsage, WrongValuesNameTheFlag) {
  expect_refused({"run", "x.plan", "-p", "a", "-n", "many"}, 2, "-n");
  expect_refused({"run", "x.plan", "-p", "a", "-n", "-4"}, 2, "-n");
  expect_refused({"build", "x.gguf", "-o", "x.plan", "--weights", "int3"}, 2, "--weights");
  expect_refused({"build", "x.gguf", "-o", "x.plan", "--kv", "q4"}, 2, "--kv");
  expect_refused({"build", "x.gguf", "-o", "x.plan", "--threads", "0"}, 2, "--threads");
  expect_refused({"build", "x.gguf", "-o", "x.plan", "--max-context-length", "0"}, 2,
                 "--max-context-length");
}

TEST(CliUsage, MissingArgumentsAreUsageErrors) {
  for (const char* verb :
       {"build", "run", "chat", "tokenize", "size", "inspect", "verify", "bench", "completion"}) {
    const Outcome outcome = run({verb});
    EXPECT_EQ(outcome.exit_code, 2) << verb << ": " << outcome.err;
    EXPECT_THAT(outcome.err, is_message());
  }
}

TEST(CliUsage, DoctorAnswers) {
  const Outcome outcome = run({"doctor"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(IsEmpty()));
}

TEST(CliFiles, AbsentFilesAreNamed) {
  const std::string absent = temp_path("nobody_is_here.gguf");
  for (const char* verb : {"inspect", "verify", "bench"}) expect_refused({verb, absent}, 3, absent);
  expect_refused({"build", absent, "-o", temp_path("a.plan")}, 3, absent);
  expect_refused({"run", absent, "-p", "hello"}, 3, absent);
  expect_refused({"chat", absent}, 3, absent);
  expect_refused({"tokenize", absent, "-p", "hello"}, 3, absent);
  expect_refused({"size", absent, "--trace", "/dev/null"}, 3, absent);
}

TEST(CliFiles, WhatIsNoModelIsRefused) {
  const std::string text = temp_path("notes.txt");
  const std::string empty = temp_path("empty.gguf");
  write_file(text, "These are notes about mills, not a model.\n");
  write_file(empty, "");
  for (const std::string& path : {text, empty, temp_folder(), std::string("/dev/null")}) {
    expect_refused({"run", path, "-p", "hello"}, 3, path);
    expect_refused({"build", path, "-o", temp_path("b.plan")}, 3, path);
    expect_refused({"verify", path}, 3, path);
    expect_refused({"inspect", path}, 3, path);
  }
}

TEST(CliFiles, AnUnreadableFileIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  const std::string path = temp_path("secret.gguf");
  write_file(path, "GGUF");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const Outcome outcome = run({"run", path, "-p", "hello"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;  // the file may be good: the machine says no
  EXPECT_THAT(outcome.err, HasSubstr(path));
}

}  // namespace
}  // namespace kvern::cli_test
