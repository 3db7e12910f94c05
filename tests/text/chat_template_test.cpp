#include "text/chat_template.h"

#include <gmock/gmock.h>

#include <functional>

#include "kvern/error.h"

namespace kvern::text {
namespace {

using testing::HasSubstr;

TemplateInput conversation() {
  TemplateInput input;
  input.messages = {{"system", " Be brief. "}, {"user", "x"}, {"assistant", " y\n"}};
  input.bos_token = "<s>";
  input.unix_time_s = 1'700'000'000;
  return input;
}

std::string render(const std::string& source) {
  return ChatTemplate(source).render(conversation());
}

void expect_error(const std::string& source, Code code, const std::string& part,
                  TemplateLimits limits = {}) {
  try {
    const std::string text = ChatTemplate(source, limits).render(conversation());
    ADD_FAILURE() << source.substr(0, 200) << " gave '" << text.substr(0, 200) << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

// The expected texts of this file are what jinja2 3.1.6 gives in transformers' settings.
TEST(ChatTemplate, BlocksTrimTheirLine) {
  EXPECT_EQ(render("  {% if true %}\n yes\n  {% endif %}\nx {% if true %} y {% endif %} z"),
            " yes\nx  y  z");
  EXPECT_EQ(render("a {%- if true -%}  b  {%- endif -%} c\n  {{- ' d ' -}}  \n e\n"), "abc d e");
  EXPECT_EQ(render(" {%+ if true +%}\n p\n {%+ endif %}\nt\n\n"), " \n p\n t\n");
  EXPECT_EQ(render("a\r\n  {# c #}\r\nb"), "a\nb");
}

TEST(ChatTemplate, LoopsKnowTheirPlace) {
  EXPECT_EQ(render("{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}"
                   "{{ loop.last }}{{ loop.length }} {% endfor %}"),
            "10TrueFalse3 21FalseFalse3 32FalseTrue3 ");
  EXPECT_EQ(render("{% for i in range(9) if i is odd %}{% if i == 5 %}{% continue %}{% endif %}"
                   "{% if i > 6 %}{% break %}{% endif %}{{ i }}{% endfor %}"),
            "13");
  EXPECT_EQ(render("{% for i in [] %}{% else %}none{% endfor %}"), "none");
}

TEST(ChatTemplate, LoopsHaveTheirOwnScopeAndNamespacesCrossIt) {
  EXPECT_EQ(render("{% set n = namespace(a=0) %}{% set x = 1 %}{% for m in messages %}"
                   "{% set n.a = n.a + 1 %}{% set x = 2 %}{% endfor %}{{ n.a }}{{ x }}"),
            "31");
}

TEST(ChatTemplate, ArithmeticIsPythons) {
  EXPECT_EQ(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** -1 }} {{ 1e16 }} {{ 4 / 2 }}"),
            "-4 2 3.5 0.5 1e+16 2.0");
  EXPECT_EQ(render("{{ 1 < 2 < 3 }} {{ not 1 == 2 }} {{ 'b' in 'abc' }} {{ 1 == 1.0 }}"),
            "True True True True");
}

TEST(ChatTemplate, ValuesPrintAsPythons) {
  EXPECT_EQ(
      render("{{ [1, 'a', \"it's\", none, true, (1,)] }} {{ {'k': 1, 'k': 2.0} }}{{ nothing }}"),
      "[1, 'a', \"it's\", None, True, (1,)] {'k': 2.0}");
  EXPECT_EQ(render("{{ {'a': [1, 'é\"\\n', none], 'b': {}} | tojson }}"),
            "{\"a\": [1, \"é\\\"\\n\", null], \"b\": {}}");
}

TEST(ChatTemplate, SlicesAndSubscripts) {
  EXPECT_EQ(render("{{ messages[-1].role }} {{ messages[1:] | length }} {{ 'naïve'[2:4] }} "
                   "{{ 'abc'[::-1] }} {{ [1, 2, 3][5:] }} {{ messages[0]['content'] | trim }}"),
            "assistant 2 ïv cba [] Be brief.");
}

TEST(ChatTemplate, StringMethods) {
  EXPECT_EQ(render("{{ 'a</t>b'.split('</t>')[-1] }} {{ 'xxaxx'.strip('x') }} "
                   "{{ 'aXbX'.replace('X', 'y', 1) }} {{ 'abc'.startswith(('x', 'a')) }} "
                   "{{ \"it's\".title() }} {{ '-'.join(['a', 'b']) }} {{ '{}!'.format(1) }}"),
            "b a aybX True It'S a-b 1!");
}

TEST(ChatTemplate, FiltersOverSequences) {
  EXPECT_EQ(render("{{ messages | selectattr('role', 'ne', 'user') | map(attribute='role') | "
                   "join(',') }} {{ x | default('d') }} {{ '' | default('e', true) }} "
                   "{{ ['b', 'A'] | sort }} {{ [3, 1] | max }} {{ {'b': 1, 'a': 2} | dictsort }}"),
            "system,assistant d e ['A', 'b'] 3 [('a', 2), ('b', 1)]");
}

TEST(ChatTemplate, MacrosSeeTheTemplateNotTheLoop) {
  EXPECT_EQ(render("{% set t = 'T' %}{% macro f(a, b='x') %}[{{ a }}{{ b }}{{ t }}{{ m }}]"
                   "{% endmacro %}{% for m in [1] %}{{ f(1) }}{{ f(b=3, a=f(2)) }}{% endfor %}"),
            "[1xT][[2xT]3T]");
}

TEST(ChatTemplate, SetBlocksRawAndFilters) {
  EXPECT_EQ(render("{% set x | upper %}a{{ 1 }}b{% endset %}{{ x }}{% raw %}{{ x }}{% endraw %}"
                   "{% filter upper %}q{% endfilter %}{% generation %}g{% endgeneration %}"),
            "A1B{{ x }}Qg");
}

TEST(ChatTemplate, RaiseExceptionGivesTheTemplatesWords) {
  expect_error("{{ raise_exception('roles must alternate') }}", Code::kInvalidRequest,
               "roles must alternate");
}

TEST(ChatTemplate, FaultsNameTheLine) {
  expect_error("a\n{{ nothing.role }}", Code::kInvalidRequest, "line 2: 'nothing' is undefined");
  expect_error("\n\n{{ 1 + 'a' }}", Code::kInvalidRequest, "line 3: '+' does not work on int and");
  expect_error("a\n{% if %}", Code::kInvalidModel, "line 2: expected a value, found %}");
  expect_error("{% if a %}", Code::kInvalidModel, "has no {% endif %}");
  expect_error("{% endfor %}", Code::kInvalidModel, "closes nothing");
  expect_error("{{ 'a", Code::kInvalidModel, "no closing quote");
  expect_error("{{ a", Code::kInvalidModel, "no end }}");
}

TEST(ChatTemplate, WhatIsMissingIsRefusedByName) {
  expect_error("a\n{% include 'x' %}", Code::kUnsupported, "line 2: the statement '{% include %}'");
  expect_error("{{ 1 | nosuch }}", Code::kUnsupported, "the filter 'nosuch'");
  expect_error("{{ 1 is nosuch }}", Code::kUnsupported, "the test 'nosuch'");
  expect_error("{{ [].append(1) }}", Code::kInvalidRequest, "lets no template change a list");
  expect_error("{{ {}.update(a=1) }}", Code::kInvalidRequest, "lets no template change a dict");
  expect_error("{{ 'a'.encode() }}", Code::kUnsupported, "calling 'encode'");
  expect_error("{% for i in [] recursive %}{% endfor %}", Code::kUnsupported, "recursive loops");
  for (const char* statement : {"extends 'x'", "import 'x' as y", "from 'x' import y", "block b",
                                "autoescape true", "do x", "trans"}) {
    expect_error("{% " + std::string(statement) + " %}", Code::kUnsupported, "the statement '{% ");
  }
  EXPECT_EQ(render("{% if false %}{{ 1 | nosuch }}{% endif %}ok"), "ok");
}

TEST(ChatTemplateHostile, EndlessWorkStops) {
  expect_error("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
               Code::kInvalidRequest, "too many steps");
  expect_error("{% set x = range(9999) | list %}{% for a in x %}{{ -1 in x }}{% endfor %}",
               Code::kInvalidRequest, "too many steps");
  expect_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", Code::kInvalidRequest, "deeply");
  expect_error("{{ range(10 ** 12) }}", Code::kInvalidRequest, "over 100000 items");
}

// Work that grows with the bytes or the names it goes over costs steps for them, not for the call.
TEST(ChatTemplateHostile, BuiltinsPayForTheBytesTheyRead) {
  const TemplateLimits limits{.max_steps = 100'000};
  for (const char* work :
       {"s.startswith(s)", "s.startswith(('a', s))", "s.endswith(s)", "s.removeprefix(s)",
        "s.removesuffix(s)", "s.format()", "s | int", "s | float", "d[s]", "s in d", "d.get(s)",
        "d == e", "{s: 1, t: 2, s: 3}", "['x'] | map(attribute=zeros) | list"}) {
    SCOPED_TRACE(work);
    expect_error(
        "{% set s = (' ' * 1024) * 1024 %}{% set t = s ~ 'x' %}{% set d = {s: 1} %}"
        "{% set e = {s: 1} %}{% set zeros = ('0.' * 128) * 128 %}"
        "{% for i in range(50) %}{% if " +
            std::string(work) + " %}{% endif %}{% endfor %}",
        Code::kInvalidRequest, "too many steps", limits);
  }
}

TEST(ChatTemplateHostile, NamesPayForTheScopesTheyAreSoughtIn) {
  const TemplateLimits limits{.max_steps = 200'000};
  const auto numbered = [](const std::string& before, int times, const std::string& after) {
    std::string text;
    for (int i = 0; i < times; ++i) text += before + std::to_string(i) + after;
    return text;
  };
  const auto loop = [](int times, const std::string& body) {
    return "{% for i in range(" + std::to_string(times) + ") %}" + body + "{% endfor %}";
  };
  const std::string names = numbered("{% set a", 2000, " = 1 %}");
  const std::string many_steps = "too many steps";
  expect_error(names + loop(1000, "{% if b %}{% endif %}"), Code::kInvalidRequest, many_steps,
               limits);
  expect_error(loop(100, numbered("{% set a", 400, " = 1 %}")), Code::kInvalidRequest, many_steps,
               limits);
  expect_error("{% set n = namespace() %}" + numbered("{% set n.a", 2000, " = 1 %}") +
                   loop(1000, "{% set n.a1999 = 1 %}"),
               Code::kInvalidRequest, many_steps, limits);
  expect_error("{% macro f(" + numbered("a", 300, "=1, ") + "z) %}{% endmacro %}" +
                   loop(50, "{{ f(" + numbered("a", 300, "=1, ") + "z=1) }}"),
               Code::kInvalidRequest, many_steps, limits);
  const std::string long_name(1 << 20, 'a');
  expect_error(
      "{% set " + long_name + " = 1 %}" + loop(50, "{% if " + long_name + " %}{% endif %}"),
      Code::kInvalidRequest, many_steps, limits);
}

// What a template drops is given back: only what lives at one time counts.
TEST(ChatTemplateHostile, MemoryIsGivenBack) {
  const TemplateLimits small{.max_output_bytes = 1 << 20};
  const std::string loop = "{% for i in range(400) %}";
  const std::string big = "{% set s = ('x' * 1024) * 64 %}";
  const auto ends = [&](const std::string& source) {
    EXPECT_EQ(ChatTemplate(source, small).render(conversation()), "end") << source;
  };
  ends(big + loop + "{% set t = s ~ i %}{% endfor %}end");
  ends(big + loop + "{% set t = [s ~ i, {s ~ 'k': 1}] %}{% endfor %}end");
  ends(big + loop + "{% set t %}{{ s }}{% endset %}{% endfor %}end");
  ends("{% set n = namespace(s='') %}" + big + loop + "{% set n.s = s ~ i %}{% endfor %}end");
  ends("{% macro f(s) %}{{ s }}{% endmacro %}" + big + loop +
       "{% if f(s) == '' %}x{% endif %}{% endfor %}end");
  expect_error(
      big + "{% set n = namespace(l=[]) %}" + loop + "{% set n.l = n.l + [s ~ i] %}{% endfor %}",
      Code::kInvalidRequest, "too much memory", small);
  expect_error(big + "{% set n = namespace(d={}) %}" + loop +
                   "{% set n.d = dict(n.d.items() | list + [[i, s ~ i]]) %}{% endfor %}",
               Code::kInvalidRequest, "too much memory", small);
}

// Two million turns, which used to end for the memory of loop variables.
TEST(ChatTemplateHostile, LongLoopsMayRun) {
  EXPECT_EQ(
      render("{% set n = namespace(c=0) %}{% for a in range(1000) %}{% for b in range(2000) %}"
             "{% endfor %}{% set n.c = n.c + 2000 %}{% endfor %}{{ n.c }}"),
      "2000000");
}

TEST(ChatTemplateHostile, MemoryIsBounded) {
  const TemplateLimits small{.max_output_bytes = 1 << 20};
  expect_error(
      "{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}"
      "{% endfor %}",
      Code::kInvalidRequest, "beyond the limit", small);
  expect_error("{{ 'x' * 10 ** 15 }}", Code::kInvalidRequest, "beyond the limit");
  expect_error("{% for i in range(9999) %}{{ 'x' * 1000 }}{% endfor %}", Code::kInvalidRequest,
               "beyond the limit", small);
  // Each level holds the one below twice: 2^60 items when written out.
  expect_error(
      "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}"
      "{% endfor %}{{ n.l }}",
      Code::kInvalidRequest, "", small);
  expect_error(
      "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}"
      "{% endfor %}{{ n.l == n.l }}",
      Code::kInvalidRequest, "too many steps");
}

TEST(ChatTemplateHostile, DepthIsBounded) {
  const auto repeat = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  const int many = 100'000;
  expect_error("{{ " + repeat("(", many) + "1" + repeat(")", many) + " }}", Code::kInvalidModel,
               "nested deeper");
  expect_error("{{ " + repeat("not ", many) + "1 }}", Code::kInvalidModel, "nested deeper");
  expect_error("{{ " + repeat("-", many) + "1 }}", Code::kInvalidModel, "nested deeper");
  expect_error("{{ 1" + repeat(" + 1", many) + " }}", Code::kInvalidModel, "nested deeper");
  expect_error("{{ 1" + repeat(" | abs", many) + " }}", Code::kInvalidModel, "nested deeper");
  expect_error("{{ a" + repeat("[0]", many) + " }}", Code::kInvalidModel, "nested deeper");
  expect_error(repeat("{% if 1 %}", many), Code::kInvalidModel, "nested deeper");
  expect_error(
      "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}"
      "{% endfor %}",
      Code::kInvalidRequest, "nested too deeply");
  // Values that change must not hold themselves.
  expect_error("{% set n = namespace() %}{% set n.n = [n] %}", Code::kUnsupported,
               "a namespace inside a namespace");
  expect_error("{% set n = namespace() %}{% for i in [1] %}{% set n.l = loop %}{% endfor %}",
               Code::kUnsupported, "a namespace inside a namespace");
  expect_error("{% for i in [1] %}{{ loop.changed(loop) }}{% endfor %}", Code::kUnsupported,
               "loop.changed()");
  expect_error(
      "{% set n = namespace() %}{% for i in [1] %}{% macro f() %}{{ i }}{% endmacro %}"
      "{% set n.f = f %}{% endfor %}{{ n.f() }}",
      Code::kInvalidRequest, "outside of the block that defines it");
}

TEST(ChatTemplateHostile, TextThatIsNotUtf8Passes) {
  TemplateInput input;
  input.messages = {{"user", "a\xff\xe2\x82"}};
  EXPECT_EQ(
      ChatTemplate("{{ messages[0].content | upper }}{{ messages[0].content[::-1] | length }}")
          .render(input),
      "A\xff\xe2\x82"
      "4");
}

}  // namespace
}  // namespace kvern::text
