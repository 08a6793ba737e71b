// SPDX-License-Identifier: Apache-2.0
// Chat templates against jinja2 (make_template_cases.py), the marks of what callers wrote, and
// bounds.
#include "runtime/base/text.h"
#include "runtime/text/jinja.h"
#include "runtime/text/jinja_json.h"
#include "tests/support/catch.h"
#include "tests/text/case_files.h"

using namespace rlx;
using jinja::MarkedText;
using jinja::NamedValue;
using jinja::Origin;
using jinja::Value;

namespace {

std::vector<NamedValue> variables_of(const std::string& json) {
  const auto read = jinja::read_json(json);
  REQUIRE(std::holds_alternative<Value>(read));
  std::vector<NamedValue> variables;
  for (const jinja::Member& member : std::get<Value>(read).dict().members) {
    variables.push_back({.name = std::string(member.key.text().bytes()), .value = member.value});
  }
  return variables;
}

struct Rendered {
  Status status;
  MarkedText text;
};

Rendered render(std::string_view source, const std::string& variables = "{}",
                const jinja::RenderOptions& options = {}) {
  Rendered out;
  out.status = jinja::render("", source, variables_of(variables), options, out.text);
  return out;
}

std::string text_of_template(std::string_view source, const std::string& variables = "{}") {
  const Rendered out = render(source, variables);
  INFO(out.status.message());
  REQUIRE(out.status.ok());
  return std::string(out.text.bytes());
}

// "Hi <|x|>" with what is the caller's between 〈 and 〉.
std::string marked(std::string_view source, const std::string& variables) {
  const Rendered rendered = render(source, variables);
  INFO(rendered.status.message());
  REQUIRE(rendered.status.ok());
  std::string out;
  size_t begin = 0;
  for (const MarkedText::Run& run : rendered.text.runs()) {
    const bool is_input = run.origin == Origin::Input;
    out += is_input ? "〈" : "";
    out += rendered.text.bytes().substr(begin, run.end - begin);
    out += is_input ? "〉" : "";
    begin = run.end;
  }
  return out;
}

void check_refused(std::string_view source, const std::string& message,
                   const std::string& variables = "{}", const jinja::Limits& limits = {}) {
  INFO(source);
  const Rendered out = render(source, variables, {.limits = limits});
  CHECK_FALSE(out.status.ok());
  CHECK(out.status.message() == message);
}

// Nothing between ⟦ and ⟧ is the template's own, but line ends that it put in place of others.
void check_marks(const MarkedText& text) {
  size_t at = 0;
  while ((at = text.bytes().find("⟦", at)) != std::string_view::npos) {
    const size_t end = text.bytes().find("⟧", at);
    REQUIRE(end != std::string_view::npos);
    for (; at < end; ++at) {
      if (text.bytes()[at] != '\n') REQUIRE(text.origin_of(at) == Origin::Input);
    }
  }
}

}  // namespace

TEST_CASE("templates of known families render as jinja2 renders them") {
  const nlohmann::json cases = test::read_cases("templates");
  const jinja::RenderOptions options = {.now_unix_seconds = cases["now"]};
  REQUIRE(cases["templates"].size() >= 12);
  for (const auto& entry : cases["families"]) {
    INFO(entry["family"] << ", " << entry["conversation"]);
    const std::string source = cases["templates"][entry["family"].get<std::string>()];
    CHECK(jinja::check_template(source).empty());
    const Rendered out = render(source, entry["variables"], options);
    INFO(out.status.message());
    REQUIRE(out.status.ok() == entry.contains("text"));
    if (!out.status.ok()) continue;
    CHECK(out.text.bytes() == entry["text"].get<std::string>());
    check_marks(out.text);
  }
}

TEST_CASE("the language does what jinja2 does") {
  const nlohmann::json cases = test::read_cases("templates");
  const jinja::RenderOptions options = {.now_unix_seconds = cases["now"]};
  for (const auto& entry : cases["language"]) {
    const std::string source = entry["template"];
    INFO(source);
    CHECK(jinja::check_template(source).empty());
    const Rendered out = render(source, cases["variables"], options);
    INFO(out.status.message());
    REQUIRE(out.status.ok());
    CHECK(out.text.bytes() == entry["text"].get<std::string>());
  }
}

TEST_CASE("the mark of a caller's text stays through what a template does to it") {
  const std::string given = R"({"c": " a<|x|>b ", "k": {"i": "v"}})";
  const auto shows = [&](std::string_view source, const std::string& wanted) {
    INFO(source);
    CHECK(marked(source, given) == wanted);
  };
  shows("<|x|>{{ c }}<|x|>", "<|x|>〈 a<|x|>b 〉<|x|>");
  shows("{{ '<' + c|trim + '>' }}", "<〈a<|x|>b〉>");
  shows("{{ '<' ~ c.strip().upper() ~ '>' }}", "<〈A<|X|>B〉>");
  shows("{{ c[2:7] }}{{ c[::-1] }}{{ c[1] }}", "〈<|x|> b>|x|<a a〉");
  shows("{{ c.split('x') | join('x') }}", "〈 a<|〉x〈|>b 〉");
  shows("{{ c | replace('a', '<s>') }}", "〈 〉<s>〈<|x|>b 〉");
  shows("{{ '<s> _ </s>' | replace('_', c) }}", "<s> 〈 a<|x|>b 〉 </s>");
  shows("{{ c | trim | tojson }}{{ k | tojson }}", "\"〈a<|x|>b〉\"{\"〈i〉\": \"〈v〉\"}");
  shows("{{ [c, 's'] }}{{ k }}", "['〈 a<|x|>b 〉', 's']{'〈i〉': '〈v〉'}");
  shows("{{ '%s|%s' % (c, 's') }}{{ '%s'|format(c) }}", "〈 a<|x|>b 〉|s〈 a<|x|>b 〉");
  shows("{% set q %}<{{ c }}>{% endset %}{{ q }}", "<〈 a<|x|>b 〉>");
  shows("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(c) | trim }}", "<〈 a<|x|>b 〉>");
  shows("{% for i in c.strip() %}{{ i }}{% endfor %}{{ c|list|last }}", "〈a<|x|>b 〉");
  shows("{{ (c * 2)|title }}{{ c|capitalize }}{{ c|indent }}",
        "〈 A<|x|>b  A<|x|>b  a<|x|>b  a<|x|>b 〉");
  shows("{% set ns = namespace(a='') %}{% set ns.a = ns.a + c %}{{ ns.a }}", "〈 a<|x|>b 〉");
  shows("{{ c|length }}{{ c == ' a<|x|>b ' }}{{ c if c == '' else '<|x|>' }}", "9True<|x|>");
}

TEST_CASE("a template that cannot go on is refused with its line and column") {
  const auto refuses = [](std::string_view source, const std::string& message) {
    check_refused(source, "the chat template, " + message);
  };
  refuses("a\n  {{ b.c }}", "line 2, column 8: the variable \"b\" is undefined");
  refuses("{{ {'a': 1}['b']['c'] }}", "line 1, column 18: the item \"b\" is undefined");
  refuses("{{ 1 + 'a' }}", "line 1, column 6: cannot calculate a whole number + a text");
  refuses("{{ [1].append(2) }}", "line 1, column 14: there is no method \"append\" here");
  refuses("{{ f(1) }}", "line 1, column 5: the variable \"f\" is undefined");
  refuses("{{ 1|batch(2) }}", "line 1, column 6: the filter \"batch\" is not supported");
  refuses("{{ 1 is nice }}", "line 1, column 9: the test \"nice\" is not supported");
  refuses("{{ raise_exception('No ' ~ 2) }}", "line 1, column 19: the template says: No 2");
  refuses("{{ raise_exception('\x1b[31mNo') }}",
          "line 1, column 19: the template says: \"\\x1b[31mNo\"");
  refuses("a{% include 'b' %}c", "line 1, column 5: the tag {% include %} is not supported");
  refuses("{% set a = [] %}{% do a.append(1) %}c",
          "line 1, column 20: the tag {% do %} is not supported");
  refuses("{{ 1 // 0 }}", "line 1, column 6: a number is divided by zero");
  refuses("{{ 9223372036854775807 + 1 }}", "line 1, column 24: a whole number leaves 64 bits");
  refuses("{% for a, b in [[1, 2, 3]] %}{% endfor %}",
          "line 1, column 4: cannot give 3 values to 2 names");
  refuses("{% set a.b = 1 %}",
          "line 1, column 4: cannot set \"b\" of \"a\", which is no namespace");
  refuses("{{ 'a'|trim(1, 2) }}", "line 1, column 8: \"trim\" takes 1 arguments at most, got 2");
  refuses("{{ 'a'|trim(by='b') }}", "line 1, column 8: \"trim\" takes no argument \"by\"");
  refuses("{{ 'a'|replace('a') }}", "line 1, column 8: \"replace\" wants an argument \"new\"");
  refuses("{{ strftime_now('%Q') }}", "line 1, column 16: strftime_now does not know \"%Q\"");
}

TEST_CASE("what is no template is refused with its line and column") {
  const auto refuses = [](std::string_view source, const std::string& message) {
    check_refused(source, "the chat template, " + message);
    CHECK(jinja::check_template(source) == std::vector<std::string>{message});
  };
  refuses("{{ a", "line 1, column 1: this tag has no end: }}");
  refuses("\n {% if a %}b", "line 2, column 5: this {% if %} has no end: {% endif %}");
  refuses("{% endfor %}", "line 1, column 4: {% endfor %} ends or divides nothing here");
  refuses("{% fort %}", "line 1, column 4: there is no tag {% fort %}");
  refuses("{{ 1 + }}", "line 1, column 8: expected an expression, got the output's end");
  refuses("{{ (1] }}", "line 1, column 6: expected \")\", got \"]\"");
  refuses("{{ ä § }}", "line 1, column 6: \"§\" has no meaning in a tag");
  refuses("{{ 'a }}", "line 1, column 4: this string has no end");
  refuses("{# a", "line 1, column 1: this comment has no end: #}");
  refuses("{% break %}", "line 1, column 4: {% break %} stands in no loop");
  refuses("{% for i in a %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}",
          "line 1, column 35: {% break %} stands in no loop");
  refuses("{{ f(a=1, 2) }}",
          "line 1, column 11: an argument without a name behind one that has one");
  refuses("{{ 99999999999999999999 }}",
          "line 1, column 4: the number \"99999999999999999999\" is out of range");
  refuses("{% if a b %}{% endif %}", "line 1, column 9: expected the tag's end, got \"b\"");
}

TEST_CASE("everything of a template that is not supported is listed at once") {
  const auto found = jinja::check_template(
      "{% include 'x' %}{{ a|batch(2)|wordwrap }}\n{% for i in a recursive %}{{ i is nice }}{% "
      "endfor %}"
      "{{ cycler(1) }}{{ a.popitem() }}{{ f() }}{% macro f() %}{% endmacro %}");
  CHECK(found ==
        std::vector<std::string>{"line 1, column 4: the tag {% include %} is not supported",
                                 "line 1, column 23: the filter \"batch\" is not supported",
                                 "line 1, column 32: the filter \"wordwrap\" is not supported",
                                 "line 2, column 15: a recursive loop is not supported",
                                 "line 2, column 35: the test \"nice\" is not supported",
                                 "line 2, column 57: the function \"cycler\" is not supported",
                                 "line 2, column 74: the method \"popitem\" is not supported"});
  CHECK(text_of_template("{% if false %}{{ 1|batch(2) }}{% include 'b' %}{% endif %}a") == "a");
}

TEST_CASE("a template that asks for too much is refused") {
  const jinja::Limits limits = {
      .steps = 100'000, .output_bytes = 1U << 20U, .memory_bytes = 8U << 20U};
  const auto refuses = [&](std::string_view source, const std::string& message) {
    INFO(source);
    const Rendered out = render(source, "{}", {.limits = limits});
    CHECK(out.status.code() == RLX_INVALID_ARGUMENT);
    INFO(out.status.message());
    CHECK(out.status.message().find(message) != std::string::npos);
  };
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}";
  refuses(loops, "the template takes more than 100000 steps: does it loop in loops?");
  refuses("{{ range(100001) }}", "\"range\" gives more than 100000 numbers");
  refuses(
      "{% set a = namespace(x='ab') %}{% for i in range(99) %}{% set a.x = a.x * 2 %}{% endfor %}",
      "the template holds more than 8388608 bytes (8.0 MiB) of values at once");
  refuses("{% set a = namespace(x=[]) %}{% for i in range(99) %}{% set a.x = [a.x] %}{% endfor %}",
          "lists and dicts stand more than 64 deep in each other");
  refuses(
      "{% set a = namespace(x=[1]) %}{% for i in range(60) %}{% set a.x = [a.x, a.x] %}{% endfor %}"
      "{{ a.x == a.x }}",
      "the template takes more than 100000 steps");
  refuses(
      "{% set a = namespace(x=[1]) %}{% for i in range(60) %}{% set a.x = [a.x, a.x] %}{% endfor %}"
      "{{ a.x }}",
      "the template takes more than 100000 steps");
  refuses("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
          "more than 400 parts of the template inside each other: does a macro call itself?");
  refuses("{% for i in range(70) %}{{ 'xxxx' * 5000 }}{% endfor %}",
          "the template writes more than 1048576 bytes (1.0 MiB)");
  refuses("{{ 'x' * 300000000 }}", "the template holds more than");
  refuses("{{ [1] * 4000000000 }}", "the template holds more than");
  refuses("{% set a = 'xxxxxxxx' * 1000 %}{{ a|replace('x', a) }}", "the template holds more than");
  refuses("{% set a = 'x' * 5000 %}{{ a.join(a|list) }}", "the template holds more than");
  refuses("{{ 9 ** 99 }}", "a whole number leaves 64 bits");
}

TEST_CASE("a text that is looked for in another takes steps by the sizes of both") {
  const auto steps_suffice = [](std::string_view searching, std::string_view sizes) {
    const std::string source = text_of("{% set a = 'x' * ", sizes, " %}{% set b = 'x' * ", sizes,
                                       " + 'y' %}{% set c = a + b %}{{ ", searching, " }}");
    const Rendered out = render(source, "{}", {.limits = {.steps = 20'000}});
    INFO(source << ": " << out.status.message());
    const bool is_refused = out.status.code() == RLX_INVALID_ARGUMENT &&
                            out.status.message().find("more than 20000 steps") != std::string::npos;
    CHECK(out.status.ok() != is_refused);
    return out.status.ok();
  };
  for (const char* searching :
       {"b in c + a", "c.find(b + a)", "c.rfind('y' + a)", "c.count(b + a)",
        "c.split(b + a)|length", "c.rsplit('y' + a)|length", "c.replace(b + a, '')|length",
        "(c|replace(b + a, ''))|length", "a.strip('y' + a)|length", "a.lstrip('y' + a)|length",
        "a.rstrip('y' + a)|length", "a|trim('y' + a)|length"}) {
    CHECK(steps_suffice(searching, "100"));
    CHECK_FALSE(steps_suffice(searching, "20000"));
  }
}

TEST_CASE("a template that is nested too deep or too long is refused") {
  const auto refuses = [](const std::string& source, const std::string& message) {
    const Rendered out = render(source);
    CHECK(out.status.code() == RLX_INVALID_PLAN);
    INFO(out.status.message());
    CHECK(out.status.message().find(message) != std::string::npos);
  };
  const auto repeat = [](std::string_view text, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += text;
    return out;
  };
  const std::string deep = "stand more than 100 deep in each other";
  const std::string long_chain = "an expression of more than 100 parts in each other";
  refuses("{{ " + repeat("(", 50000) + repeat(")", 50000) + " }}", deep);
  refuses("{{ " + repeat("-", 50000) + "1 }}", deep);
  refuses("{{ " + repeat("not ", 50000) + "1 }}", deep);
  refuses("{{ " + repeat("[", 50000), "this tag has no end");
  refuses(repeat("{% if a %}", 20000), deep);
  refuses("{{ 1" + repeat("+1", 50000) + " }}", long_chain);
  refuses("{{ a" + repeat("|d", 50000) + " }}", long_chain);
  refuses("{{ a" + repeat(".b", 50000) + " }}", long_chain);
  refuses(repeat("a", 300000), "the template has 300000 bytes (0.2 MiB), at most 262144 bytes");
  CHECK(text_of_template("{{ " + repeat("(", 30) + "1" + repeat("+1)", 30) + " }}") == "31");
}

TEST_CASE("namespaces that hold each other are given back") {
  CHECK(text_of_template("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
                         "{% macro f() %}{% endmacro %}{% set a.f = f %}{{ a.b.a == a }}") ==
        "True");
}

TEST_CASE("JSON of a caller is read, or refused by the byte") {
  const auto text = [](const std::string& json) {
    return text_of_template("{{ v }}", "{\"v\": " + json + "}");
  };
  CHECK(text("[1, -2.5e1, true, null, {\"a\": []}]") == "[1, -25.0, True, None, {'a': []}]");
  CHECK(text("\"\\u00e4\\ud83d\\ude00\\n\\/\\ud800\"") == "ä😀\n/\uFFFD");
  CHECK(text("\"\xFF\"") == "\uFFFD");
  const auto refuses = [](std::string_view json, const std::string& message) {
    const auto read = jinja::read_json(json);
    REQUIRE(std::holds_alternative<std::string>(read));
    CHECK(std::get<std::string>(read) == message);
  };
  refuses("", "byte 0: expected a value");
  refuses("{\"a\" 1}", "byte 5: expected :");
  refuses("[1 2]", "byte 3: expected ,");
  refuses("\"a", "byte 2: expected the string's end");
  refuses("\"\\x\"", "byte 2: expected an escape of JSON");
  refuses("1 2", "byte 2: expected nothing behind the value");
  refuses(std::string(100, '['), "byte 64: expected at most 64 values in each other");
}
