// Patterns as `tokenizers` understands them. Words are those of its Split(Regex(…), "isolated"),
// version 0.23.3.
#include "text/oniguruma.h"

#include <gmock/gmock.h>

#include <vector>

#include "kvern/error.h"
#include "text/splitter.h"

namespace kvern::text {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

Words words(const std::string& pattern, std::string_view text) {
  Words out;
  Splitter::Scratch scratch;
  const std::vector<Step> steps = {{.kind = StepKind::kSplitRegex, .text = pattern}};
  Splitter(steps).split(text, Place::kStart, scratch,
                        [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

struct Case {
  const char* pattern;
  const char* text;
  Words words;
};

TEST(Oniguruma, RepeatsOfIntervals) {
  const Case cases[] = {{R"(\p{N}{1,3}+)", "1234567", {"1234567"}},
                        {R"(\p{N}{2}?)", "12345", {"12", "34", "5"}},
                        {"a{,2}", "aaab", {"aa", "a", "b"}},
                        {"x{2}+", "xxxxx", {"xxxx", "x"}},
                        {"x{1,2}?", "xxx", {"x", "x", "x"}},
                        {R"(\n{2}+|a)", "\n\n\n\n\na", {"\n\n\n\n", "\n", "a"}},
                        {"(?:é{2}+)+", "éééé!", {"éééé", "!"}},
                        {"a++", "aaab", {"aaa", "b"}},
                        {"a+*", "aab", {"aa", "b"}},
                        {"a{", "a{b", {"a{", "b"}}};
  for (const Case& each : cases) EXPECT_EQ(words(each.pattern, each.text), each.words);
}

TEST(Oniguruma, LinesAndDots) {
  const Case cases[] = {{"^a", "ba\na", {"ba\n", "a"}},
                        {"a$", "a\nab", {"a", "\nab"}},
                        {R"(a\Z)", "aba\n", {"ab", "a", "\n"}},
                        {"(?m:a.b)", "xa\nb", {"x", "a\nb"}},
                        {"a.b", "a\nb a\rb", {"a\nb ", "a\rb"}}};
  for (const Case& each : cases) EXPECT_EQ(words(each.pattern, each.text), each.words);
}

TEST(Oniguruma, LettersBehindABackslash) {
  const Case cases[] = {
      {R"(\h+)", "xyz 09af g", {"xyz ", "09af", " g"}},
      {R"(\H+)", "09xyz", {"09", "xyz"}},
      {R"(\v)",
       "a\x0b"
       "b\n\f",
       {"a", "\x0b", "b\n\f"}},
      {R"(\w+)", "!a_b\u0301c ½Ⅷⓐ \u203f", {"!", "a_b\u0301c", " ", "½Ⅷⓐ", " ", "\u203f"}},
      {R"(\bab\b)", "ab\u0301 ab abc", {"ab\u0301 ", "ab", " abc"}},
      {R"(\p{Han}+)", "漢々〇、ー", {"漢々〇", "、ー"}},
      {R"(\p{^L}+)", "ab12", {"ab", "12"}},
      {R"(\d+)", "12½٣", {"12", "½", "٣"}},
      {R"(\u0041+)", "AAB", {"AA", "B"}},
      {R"(\x41)", "BA", {"B", "A"}}};
  for (const Case& each : cases) EXPECT_EQ(words(each.pattern, each.text), each.words);
}

TEST(Oniguruma, ClassesInClasses) {
  const Case cases[] = {{"[a[bc]]+", "abcd", {"abc", "d"}},
                        {"[a-c[-]]+", "a-bd", {"a-b", "d"}},
                        {R"([^(\s|[.,!])]+)", "ab|c.d (e", {"ab", "|", "c", ".", "d", " (", "e"}},
                        {R"([^\S\n]+)", "a \n b", {"a", " ", "\n", " ", "b"}},
                        {"[a-c-e]+", "b-e d", {"b-e", " d"}},
                        {R"([a\-z]+)", "a-mz", {"a-", "m", "z"}},
                        {"[a&b]+", "a&bc", {"a&b", "c"}}};
  for (const Case& each : cases) EXPECT_EQ(words(each.pattern, each.text), each.words);
}

TEST(Oniguruma, WhatHasNoCounterpartIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"[a-z&&[^b]]", "'&&'"}, {R"(\R)", R"(\\R)"},         {R"(a\Kb)", R"(\\K)"},
      {R"(\X)", R"(\\X)"},     {R"(\G)", R"(\\G)"},         {R"((a)\1)", R"(\\1)"},
      {"(?<n>a)", "(?<n"},     {"(?~a)", "(?~a"},           {"(*FAIL)", "(*"},
      {"[[:alpha:]]", "[:"},   {R"(\p{Letter})", "Letter"}, {R"(\pL)", "without {"},
      {"[]a]", "']'"},         {"[a[^b]]", "negated"},      {R"([\d-x])", "range"},
      {R"(\xE3)", "xE3"},      {"a(?i)b", "option"},        {"(?x:a )", "option x"}};
  for (const auto& [pattern, name] : cases) {
    try {
      pcre2_of_oniguruma(pattern);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnsupported) << pattern;
      EXPECT_THAT(error.what(), HasSubstr(name)) << pattern;
    }
  }
  EXPECT_THROW(pcre2_of_oniguruma(std::string(60000, '[')), Error);
}

}  // namespace
}  // namespace kvern::text
