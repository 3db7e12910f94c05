"""Small templates, one construct or two each, for jinja_cases.py. Lines are templates; the variables
they see are VARIABLES and the conversation MESSAGES. Whether a template renders or fails is for jinja2
to say: a case that fails there must fail in Kvern too.
"""

MESSAGES = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Why does a mill turn?"},
    {"role": "assistant", "content": "The wind.\n", "tool_calls": None},
]

VARIABLES = {
    "n": 7, "x": 2.5, "yes": True, "nil": None, "empty": "", "word": "naïve Mill",
    "items": [3, 1, 2], "names": ["bob", "Alice", "carol", "alice"],
    "d": {"b": 1, "a": [1, {"k": "v"}], "c": None},
    "people": [{"name": "Ann", "age": 41, "home": {"town": "Kiel"}}, {"name": "bo", "age": 7},
               {"name": "Cy", "age": 41, "home": {"town": "Aarhus"}}],
    "nested": [[1, 2], [3, [4, 5]]],
    "text": "one two\nthree\n\n  four <b>&'\"",
    "mixed": [0, 1, "", "a", None, True, False, [], {}],
}

WHITESPACE = r"""
a {%- if yes -%}  b  {%- endif -%} c
a {%+ if yes %} b {%+ endif %} c
  {{- ' x ' -}}   y
{{ 1 }} {{- 2 }} {{ 3 -}} {{ 4 }}
a {# note #} b {#- note -#} c {#+ d #} e
{% raw %}{{ no }} {% if %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}|
"""

# Templates with lines of their own.
MULTILINE = [
    "  {% if yes %}\n yes\n  {% endif %}\nx {% if yes %} y {% endif %} z",
    "{% for m in messages %}\n{{ m.role }}\n{% endfor %}\nend\n\n",
    "\t{# note #}\n\tb\n  {%+ if yes +%}\n p\n {% endif %}\nt\n",
    "a\r\n  {# c #}\r\nb\rc",
    "{% raw %}\n  {{ x }}\n{% endraw %}\ny",
    "{%- for i in [1, 2] %}\n  {%- if i == 1 %}\none\n  {%- else %}\nother\n  {%- endif %}\n{%- endfor %}\n",
    "{% set s %}\n  a\n  {{ n }}\n{% endset %}\n[{{ s }}]",
    "{% macro f(a) -%}\n  <{{ a }}>\n{%- endmacro %}\n{{ f(1) }}\n{{- f(2) }}",
    "a\u00a0{%- if yes %}b{% endif -%}\u3000c",
    "\n\n{{ 1 }}\n\n",
    "{{ 'a\\\nb' }}",
    "{% if yes %}\n\n{% endif %}{{ n }}",
]

VALUES = r"""
{{ n }} {{ x }} {{ yes }} {{ nil }} {{ empty }} {{ missing }}
{{ [1, 'a', "it's", none, true, 1.0, (1,), ()] }}
{{ {'a': 1, 2: 'b', none: [], 1.5: true, (1, 2): 3} }}
{{ {'k': 1, 'k': 2} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}
{{ {2: 'two'}[2] }} {{ {2: 'two'}.get(2) }} {{ {2: 'two'}.get(3, 'no') }} {{ 2 in {2: 1} }}
{{ 'a\tb\x41\u00e9\U0001F600\101\q' }}
{{ ['a\n', 'it\'s "x"', '\u00a0\u200b é', '\x7f'] }}
{{ 'a' 'b' ~ "c" }}
{{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 1e22 }} {{ 123456789012345680.0 }}
{{ True }} {{ False }} {{ None }} {{ true is true }} {{ none is none }}
{{ (1, 2) }} {{ 1, 2 }} {{ (1) }} {{ [1,] }} {{ {'a': 1,} }}
{{ [missing] }} {{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ -0.0 }} {{ 100000.0 * 10 }}
{{ nested[1][1][0] }} {{ d.a[1].k }} {{ d['a'][1]['k'] }} {{ people.0.name }}
{{ missing.x is defined }}
{{ missing is defined and missing.x }}|{{ d.nope }}|{{ d['nope'] }}|{{ items[9] }}|{{ none.x }}
{{ missing.x }}
{{ missing['x'] }}
{{ items.x.y }}
{{ namespace(a=1).a }} {{ dict(a=1, b=2) }} {{ dict({'a': 1}, b=2) }} {{ dict([['x', 1], ('y', 2)]) }}
{{ 9223372036854775807 }} {{ -9223372036854775807 }}
"""

OPERATORS = r"""
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 4 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 0.5 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 0 ** 0 }} {{ (-1) ** 101 }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ (1 + 2) * 3 }} {{ 'a' ~ 1 ~ none ~ true ~ [1] }} {{ +n }} {{ -n }} {{ - -n }}
{{ 'ab' * 2 }} {{ 3 * 'a' }} {{ [1] * 2 }} {{ 'a' * -1 }}| {{ [1] + [2, 3] }} {{ (1,) + (2,) }}
{{ true + true }} {{ true * 3 }} {{ false or 'x' }} {{ 0 or none }} {{ 1 and 'y' }} {{ '' and 1 }}|
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 > 1 == 1 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ [1] == (1,) }} {{ 'a' < 'b' }} {{ 'B' < 'a' }}
{{ not yes }} {{ not not 1 }} {{ not 1 == 2 }} {{ 1 not in items }} {{ 3 in items }} {{ 'b' in d }} {{ 'ill' in word }} {{ '' in 'a' }} {{ 'x' not in 'abc' }}
{{ none == none }} {{ none == false }} {{ missing == missing }} {{ missing == none }} {{ nested == [[1, 2], [3, [4, 5]]] }} {{ d == {'c': none, 'a': [1, {'k': 'v'}], 'b': 1} }}
{{ 'a' if n > 5 else 'b' }} {{ 'a' if n > 9 else 'b' if n > 8 else 'c' }} {{ 'x' if missing }}| {{ ('p' if yes) ~ 'q' }}
{{ [1, 2] < [1, 3] }} {{ (1, 'a') < (1, 'b') }} {{ [1] < [1, 0] }} {{ 1 <= 1 }} {{ 2 >= 3 }} {{ 1 != 2 }} {{ 'é' > 'z' }}
{{ 1 in [true] }} {{ 'a' in ('a', 'b') }} {{ none in [none] }} {{ 1 in missing }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ none + 1 }}
{{ missing + 1 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ 1 // 0 }}
{{ 1.0 % 0 }}
{{ 'a' - 'b' }}
{{ -'a' }}
{{ 1 in 2 }}
{{ 2 in 'a2' }}
{{ [1] + (2,) }}
{{ {'a': 1} + {'b': 2} }}
{{ 0.0 ** -1 }}
{{ {[1]: 2} }}
"""

SLICES = r"""
{{ items[1:] }} {{ items[:-1] }} {{ items[::2] }} {{ items[::-1] }} {{ items[5:] }} {{ items[-2:] }} {{ items[:] }} {{ items[1:1] }}
{{ word[2:5] }} {{ word[-4:] }} {{ word[::-1] }} {{ word[0] }} {{ word[-1] }} {{ word[2] }} {{ word[10:2:-3] }} {{ 'abcdef'[4:1:-1] }}
{{ (1, 2, 3)[1:] }} {{ messages[1:] | length }} {{ messages[-1].role }} {{ messages[-1]['content'] | trim }}
{{ d[1:] }}
{{ nil[1:] }}
{{ 1 ~ 2 + 3 }}
{{ n[0] }}|{{ items['x'] }}|{{ items[1.5] }}|{{ items[none:2] }}
{{ items[true] }} {{ 'abc'[1:][0] }} {{ items[n:] }} {{ items[-99:99] }} {{ items[-1:0:-1] }}
{{ items['a':] }}
{{ items[::0] }}
{{ missing[1:] }}
"""

LOOPS = r"""
{% for i in items %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for i in items %}[{{ loop.previtem }}<{{ i }}<{{ loop.nextitem }}]{% endfor %}
{% for i in items %}{% if loop.previtem is defined %}{{ loop.previtem }},{% endif %}{{ loop.nextitem is defined }} {% endfor %}
{% for i in range(5) %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}
{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}
{% for i in range(9) if i is odd %}{% if i == 5 %}{% continue %}{% endif %}{% if i > 7 %}{% break %}{% endif %}{{ i }}/{{ loop.length }} {% else %}none{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %} {% for i in missing %}x{% else %}none{% endfor %} {% for i in items if i > 9 %}x{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for v in d.values() %}{{ v }}{% endfor %} {% for k in d.keys() %}{{ k }}{% endfor %}
{% for a, (b, c) in [[1, [2, 3]], (4, (5, 6))] %}{{ a }}{{ b }}{{ c }} {% endfor %} {% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}
{% for c in 'aé😀' %}<{{ c }}>{% endfor %} {% for x in 1, 2, 3 %}{{ x }}{% endfor %} {% for x in (1, 2) %}{{ x }}{% endfor %}
{% for a in items %}{% for b in items %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}
{% set x = 1 %}{% for i in items %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% set ns = namespace(t=0) %}{% for i in items %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}
{% for i in items %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %} {% for i in items %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}
{% for m in messages %}{{ loop.index0 % 2 == 0 }}{{ m['role'] }}{{ m.content.strip() }}{{ '' if loop.last else '|' }}{% endfor %}
{% for i in items %}{{ i }}{% endfor %}{{ i }}|{{ loop is defined }}
{% for i in range(3) %}{% for j in range(3) if j != i %}{{ i }}{{ j }}{% if not loop.last %},{% endif %}{% endfor %};{% endfor %}
{% for i in range(2, 9, 3) %}{{ i }} {% endfor %}{{ range(5, 0, -2) | list }} {{ range(3) | length }} {{ range(0) | list }} {{ range(4)[2] }}
{% for p in people %}{{ p.name }}{% with a = p.age, name = 'w' %}{{ a }}{{ name }}{% endwith %}{{ name }} {% endfor %}
{% set l = people | map(attribute='name') %}{% for p in l %}{{ p }}{% endfor %}|{% for p in l %}{{ p }}{% endfor %}
{% for i in none %}x{% endfor %}
{% for i in 5 %}x{% endfor %}
{% for a, b in items %}x{% endfor %}
{% for a, b in [[1, 2, 3]] %}x{% endfor %}
{{ range(1000000) | length }}
{{ range(1, 5, 0) }}
{% break %}
{% for i in items %}{{ i }}{% endfr %}
"""

SETS = r"""
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }} {% set t = 1, %}{{ t }}
{% set s %}a{{ n }}b{% endset %}{{ s }} {{ s | upper }} {% set s | upper | replace('A', 'x') %}a{{ n }}b{% endset %}{{ s }}
{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{% set ns.c = [ns.a] %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.zz is defined }}
{% set ns = namespace() %}{% set ns.s %}q{{ n }}{% endset %}{{ ns.s }}
{% if yes %}{% set v = 1 %}{% endif %}{{ v }} {% if not yes %}{% set w = 1 %}{% endif %}{{ w is defined }}
{% set n = n + 1 %}{{ n }} {% set messages = messages[1:] %}{{ messages | length }}
{% set x = 'outer' %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% set x = 'later' %}{{ f() }}
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }} {% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}
{% filter upper %}a{{ word }}{% endfilter %} {% filter replace('a', 'b') | upper %}aaa{% endfilter %}
{% generation %}g{% set inside = 1 %}{{ inside }}{% endgeneration %}{{ inside is defined }}
{% if n == 1 %}a{% elif n == 7 %}b{% else %}c{% endif %} {% if n, %}t{% endif %} {% if [] %}a{% else %}e{% endif %}
{% print n %}{% set j = joiner() %}{% for i in items %}{{ j() }}{{ i }}{% endfor %}
{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }} {% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.next() }}
{% set ns = namespace(a=1) %}{{ ns is mapping }} {{ ns.a }} {% set ns.items = 2 %}{{ ns.items }}
{% set a, b = [1] %}
{% set d.x = 1 %}
{% set ns = namespace(_a=1) %}
{% set ns = namespace() %}{% set ns._a = 1 %}
{{ ns.x }}
"""

MACROS = r"""
{% macro f(a, b='x', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=f(2)) }}{{ f(1, c='z') }}{{ f() }}
{% macro f(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ f('q') }} {{ f('q', 'r') }} {{ f('x') | upper ~ 'y' }}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in{{ n }}{% endcall %}
{% macro each(l) %}{% for i in l %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(v, k='d') each(items) %}[{{ v }}{{ k }}{{ n }}]{% endcall %}
{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, a=3) }} {{ f() }}
{% macro f(a) %}{{ a }}{{ varargs | join('-') }}{% endmacro %}{{ f(1, 2, 3) }}
{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }} {{ f(**{'b': 1, 'a': 2}) }} {{ f(*[5], **{'b': 6}) }}
{% macro fact(k) %}{{ 1 if k < 2 else k * (fact(k - 1) | int) }}{% endmacro %}{{ fact(10) }}
{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% set t = 'T' %}{% macro f() %}{{ t }}{{ i is defined }}{% endmacro %}{% for i in items %}{{ f() }}{% endfor %}
{% for i in items %}{% macro g() %}<{{ i }}>{% endmacro %}{{ g() }}{% endfor %}
{% macro f() %}{% set z = 5 %}{{ z }}{% endmacro %}{{ f() }}{{ z is defined }} {{ f is callable }} {{ n is callable }}
{% macro f(x) %}{% macro g(y) %}{{ x }}{{ y }}{% endmacro %}{{ g(1) }}{{ g(2) }}{% endmacro %}{{ f('a') }}
{% macro f(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ f() }}{{ f(none) }}
{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=1) }}
{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}
{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}
{{ nofunction(1) }}
{{ n() }}
"""

FILTERS = r"""
{{ missing | default('d') }} {{ nil | default('d') }} {{ '' | default('d') }}|{{ '' | d('e', true) }} {{ none | d('f', boolean=true) }} {{ missing | default }}|
{{ items | length }} {{ word | length }} {{ d | count }} {{ missing | length }} {{ '😀é' | length }}
{{ items | first }} {{ items | last }} {{ word | first }} {{ word | last }} {{ [] | first }}| {{ d | first }} {{ missing | first }}|
{{ items | join }} {{ items | join(', ') }} {{ people | join('+', attribute='name') }} {{ word | join('.') }} {{ d | join }} {{ mixed | join('|') }}
{{ items | sort }} {{ items | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | join }} {{ people | sort(attribute='age,name') | map(attribute='name') | join }}
{{ names | unique | list }} {{ names | unique(case_sensitive=true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }}
{{ d | dictsort | map(attribute='0') | list }} {{ {'b': 2, 'A': 1, 'c': 0} | dictsort }} {{ {'b': 2, 'a': 3} | dictsort(by='value', reverse=true) }} {{ {'b': 2, 'A': 1} | dictsort(true) }}
{{ items | sum }} {{ people | sum(attribute='age') }} {{ [] | sum }} {{ [0.5, 1] | sum }} {{ [1] | sum(start=10) }} {{ nested | sum(start=[]) }}
{{ items | min }} {{ items | max }} {{ names | min }} {{ names | max }} {{ [] | max }}| {{ people | max(attribute='age') | attr('keys') is defined }} {{ ['b', 'A'] | min }} {{ (people | min(attribute='age')).name }}
{{ people | map(attribute='name') | list }} {{ people | map(attribute='home.town', default='-') | list }} {{ names | map('upper') | join(' ') }} {{ items | map('string') | list }} {{ names | map('replace', 'a', '4') | list }} {{ people | map(attribute='age') | map('int') | sum }}
{{ mixed | select | list }} {{ mixed | reject | list }} {{ items | select('odd') | list }} {{ items | reject('gt', 1) | list }} {{ items | select('>', 1) | list }} {{ items | select('in', [1, 2]) | list }}
{{ people | selectattr('home') | map(attribute='name') | list }} {{ people | selectattr('age', 'eq', 41) | list | length }} {{ people | rejectattr('age', 'equalto', 41) | map(attribute='name') | list }} {{ people | selectattr('home', 'defined') | list | length }} {{ people | rejectattr('home') | list | length }}
{{ messages | selectattr('role', 'in', ['user', 'assistant']) | map(attribute='role') | join(',') }} {{ (messages | selectattr('role', 'equalto', 'tool') | list | length) > 0 }}
{{ 'yes' if messages | selectattr('role', 'equalto', 'tool') else 'no' }} {{ 'yes' if [] | map('upper') else 'no' }} {{ 'yes' if d.items() else 'no' }} {{ 'yes' if {}.items() else 'no' }}
{{ items | reverse | list }} {{ word | reverse }} {{ items | list }} {{ 'ab' | list }} {{ d | list }} {{ (1, 2) | list }} {{ missing | list }}
{{ d | items | list }} {{ missing | items | list }} {% for k, v in d | items %}{{ k }}{{ v }}{% endfor %}
{{ range(7) | batch(3) | list }} {{ range(7) | batch(3, 'x') | list }} {{ range(7) | slice(3) | list }} {{ range(7) | slice(3, 'x') | list }}
{% for g in people | groupby('age') %}{{ g.grouper }}:{{ g.list | length }} {% endfor %}{% for age, l in people | groupby('age') %}{{ age }}={{ l | map(attribute='name') | join }} {% endfor %}
{{ word | upper }} {{ word | lower }} {{ word | title }} {{ word | capitalize }} {{ "it's a FOO-bar (baz)" | title }} {{ n | upper }} {{ 'ÀÉ' | lower }}
{{ '  a b ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ '\u00a0a\u3000' | trim }}| {{ n | trim }} {{ none | trim }}
{{ word | replace('M', 'm') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'ab' | replace('', '-') }} {{ n | replace(7, 8) }} {{ 'a' | replace('a', 1) }}
{{ text | indent }}|{{ text | indent(2) }}|{{ text | indent(2, true) }}|{{ text | indent(2, blank=true) }}|{{ text | indent('> ', first=true) }}
{{ text | escape }} {{ '<' | e }} {{ text | safe | length }} {{ n | string }} {{ [1] | string | length }} {{ text | wordcount }} {{ 'a-b_c d' | wordcount }}
{{ '42' | int }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ true | int }} {{ none | int }} {{ ' 12 ' | int }} {{ '1_0' | int }} {{ '+5' | int }} {{ '-5' | int }} {{ [] | int }} {{ '1e3' | int }}
{{ '4.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ '1e3' | float }} {{ none | float }} {{ 'inf' | float }} {{ ' 2 ' | float }} {{ '0x1' | float }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42 | round }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(1, 'ceil') }} {{ 7 | round(1, 'floor') }} {{ 1.1 | round(method='ceil') }} {{ -2.5 | round }}
{{ -5 | abs }} {{ (-5) | abs }} {{ (-2.5) | abs }} {{ true | abs }}
{{ '%s is %d, %5.2f|%-5s|%5s|%05d|%x|%%' | format('a', 3, 2.5, 'l', 'r', 42, 255) }} {{ '%(a)s-%(b)r' | format(a=1, b='x') }}
{{ 'abcdef ghi jkl' | truncate(9) }} {{ 'abcdef ghi jkl' | truncate(9, true, '') }} {{ 'abcdef ghi jkl' | truncate(8, leeway=0) }} {{ 'short' | truncate(3) }} {{ 'ab' | center(6) }}| {{ 'abc' | center(6) }}|
{{ items | length | string ~ 'x' }} {{ (items | length) + 1 }} {{ items | length + 1 }} {{ -1 | abs }} {{ 'a' | upper ~ 'b' | upper }}
{{ people | selectattr('home.town', '==', 'Kiel') | list }}
{{ people | selectattr('home') | selectattr('home.town', '==', 'Kiel') | list | length }}
{{ 1 | nosuchfilter }}
{{ none | length }}
{{ 5 | length }}
{{ items | map('nosuch') | list }}
{{ missing | int }}
{{ 5 | list }}
{{ 5 | items | list }}
{{ 'abc' | abs }}
{{ 'a' | round }}
{{ [1, 'a'] | sort }}
{{ items | map('upper') | length }}
{{ (names | map('upper'))[0] }}|
{{ [1, none] | sum }}
"""

JSON = r"""
{{ d | tojson }} {{ 'é"\\\n\t\x01<>&\'/' | tojson }} {{ 1.0 | tojson }} {{ none | tojson }} {{ [true, false] | tojson }} {{ (1, 2) | tojson }} {{ '' | tojson }} {{ {} | tojson }} {{ [] | tojson }}
{{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ nested | tojson(indent=0) }}
{{ d | tojson(indent='> ') }} {{ [1, {'a': []}] | tojson(indent=4) }}
{{ 'é😀\u2028\x7f' | tojson(ensure_ascii=true) }} {{ 'é😀' | tojson(ensure_ascii=False) }}
{{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }} {{ {'b': 1} | tojson(separators=(',', ':')) }} {{ {'b': [1, 2]} | tojson(indent=1, separators=(' ,', ' = ')) }} {{ {'b': [1, 2]} | tojson(separators=[';', '=']) }}
{{ {1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson }} {{ {2: 1, 1: 2} | tojson(sort_keys=true) }}
{{ messages | tojson }} {{ messages[2] | tojson }} {{ people | map(attribute='name') | list | tojson }}
{{ 1e100 | tojson }} {{ 1e-7 | tojson }} {{ 'inf' | float | tojson }} {{ 'nan' | float | tojson }} {{ 0.1 | tojson }} {{ 12345678901234567 | tojson }}
{{ d | tojson(false, 2) }} {{ d | tojson | length }} {{ ('[' ~ (items | tojson) ~ ']') }} {{ d | tojson(indent=none) }} {{ tools | tojson }}
{{ missing | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ {1: 1, 'a': 2} | tojson(sort_keys=true) }}
{{ people | map(attribute='name') | tojson }}
{{ namespace(a=1) | tojson }}
{{ d | tojson(nonsense=1) }}
"""

TESTS = r"""
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ nil is none }} {{ nil is not none }} {{ d.zz is defined }} {{ d.c is defined }}
{{ 'a' is string }} {{ n is string }} {{ d is mapping }} {{ items is mapping }} {{ items is sequence }} {{ 'a' is sequence }} {{ n is sequence }} {{ d is iterable }} {{ n is iterable }} {{ 'a' is iterable }} {{ missing is iterable }} {{ none is iterable }}
{{ n is number }} {{ x is number }} {{ yes is number }} {{ 'a' is number }} {{ n is integer }} {{ x is integer }} {{ yes is integer }} {{ x is float }} {{ yes is boolean }} {{ n is boolean }} {{ yes is true }} {{ yes is false }} {{ 1 is true }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is not divisibleby 2 }} {{ x is even }}
{{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is lt 8 }} {{ n is le 7 }} {{ n is gt 7 }} {{ n is ge 7 }} {{ n is greaterthan 6 }} {{ n is lessthan(8) }} {{ 3 is in items }} {{ 'q' is in 'abc' }} {{ n is not in items }}
{{ 'abc' is lower }} {{ 'aBc' is lower }} {{ 'ABC' is upper }} {{ '12' is upper }} {{ none is sameas none }} {{ 1 is sameas true }} {{ true is sameas true }} {{ items is sameas items }}
{{ 'a' if n is defined and n is number else 'b' }} {{ not n is defined }} {{ n is defined == true }} {{ (n is defined) and not (missing is defined) }}
{{ 'upper' is filter }} {{ 'nosuch' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ d.items is callable }}
{{ messages is iterable and messages is not string }} {{ messages[0] is mapping }} {{ (names | map('upper')) is sequence }} {{ (names | map('upper')) is iterable }}
{{ n is nosuchtest }}
{{ 'a' is odd }}
{{ n is divisibleby 0 }}
"""

STRINGS = r"""
{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b '.split(' ') }} {{ 'a b c'.split(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a</t>b'.split('</t>')[-1] }} {{ 'a b c '.split(none, 1) }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit() }} {{ 'a b c'.rsplit(maxsplit=1) }} {{ 'aXXbXXc'.rsplit('XX') }} {{ 'a b c '.rsplit(none, 1) }}
{{ 'a\nb\r\nc\rd\x0be\u2028f'.splitlines() }} {{ 'a\nb\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ ''.splitlines() }} {{ '\n\n'.splitlines() }}
{{ '  a '.strip() }}| {{ 'xyax'.strip('xy') }} {{ '  a '.lstrip() }}| {{ '  a '.rstrip() }}| {{ 'a\n\n'.rstrip('\n') }} {{ '\x1ca\x1f'.strip() }} {{ 'éaé'.strip('é') }} {{ '<t>a'.lstrip('<t>') }}
{{ word.startswith('na') }} {{ word.startswith(('x', 'n')) }} {{ word.endswith('Mill') }} {{ word.endswith(('a', 'b')) }} {{ word.startswith('ve', 3) }} {{ 'abc'.endswith('b', 0, 2) }} {{ ''.startswith('') }} {{ 'a'.startswith('', 2) }}
{{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('z') }} {{ 'éab'.find('b') }} {{ 'abcabc'.find('c', 3) }} {{ 'abc'.index('c') }} {{ 'abcb'.rindex('b') }} {{ 'aXbX'.count('X') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'aaa'.rfind('aa') }} {{ 'abc'.rfind('') }}
{{ 'aXbX'.replace('X', 'y') }} {{ 'aXbX'.replace('X', 'y', 1) }} {{ 'ab'.replace('', '-') }} {{ 'ab'.replace('', '-', 2) }} {{ 'abc'.replace('b', '') }} {{ 'aa'.replace('a', 'b', -1) }}
{{ word.upper() }} {{ word.lower() }} {{ word.title() }} {{ "it's x2y".title() }} {{ word.capitalize() }} {{ word.swapcase() }} {{ 'AÉ'.casefold() }} {{ ''.capitalize() }}|
{{ '-'.join(['a', 'b']) }} {{ ''.join('abc') }} {{ ','.join(d) }} {{ ','.join(names | map('upper')) }} {{ ' '.join([]) }}|
{{ 'x{}y{}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{a}-{b}'.format(a=1, b=none) }} {{ '{{{}}}'.format(1) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{:+d}|{:%}'.format('a', 'b', 'c', 42, 3.14159, 1234567, 255, 5, 0.25) }}
{{ '{!r} {!s:>4}'.format('a', 'b') }} {{ '{:*^7}'.format('ab') }} {{ '{0[1]} {1.b} {1[b]}'.format(items, d) }} {{ '{:e} {:g} {:.3} {:10.3f}|'.format(12345.678, 0.00001, 2.0, 2.5) }} {{ '{:#x} {:b} {:_} {:=+8d}'.format(255, 5, 1234567, 42) }} {{ '{:5}|{:5}|{:5}'.format(1, 'a', true) }} {{ '{:.3}|{:3.1}'.format('abcdef', 'xyz') }}
{{ '%s' % 'a' }} {{ '%s %s' % ('a', 1) }} {{ '%d%%' % 5 }} {{ '%.3f|%8.2f|%-8.2f|%+d|% d' % (1.5, 2.5, 2.5, 3, 4) }} {{ '%(k)s' % {'k': 'v'} }} {{ '%r %s' % ('a', none) }} {{ '%s' % [1, 2] }} {{ '%05d %5s %-5s| %x %X %o %#x' % (42, 'a', 'b', 255, 255, 8, 255) }} {{ '%e %g %G' % (12345.678, 1e-7, 1e20) }} {{ '%s' % d }} {{ '%.2s' % 'abc' }} {{ '%i' % 3.9 }} {{ '%5.1f%%' % 99.55 }}
{{ 'abc'.isdigit() }} {{ '123'.isdigit() }} {{ ''.isdigit() }} {{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' \n'.isspace() }} {{ 'abc'.islower() }} {{ 'ABC'.isupper() }} {{ '1'.isnumeric() }} {{ 'é'.isascii() }} {{ 'é'.isalpha() }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ 'abc'.removeprefix('x') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}
{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'ab'.center(5, '*') }} {{ 'abc'.center(6, '*') }} {{ 'a\tb'.expandtabs(4) }} {{ 'a\tb'.expandtabs() }}
{{ word.split(' ')[1][0].lower() }} {{ (word ~ '!').strip('!') }} {{ 'a'.upper().lower() }} {{ ('a' ~ 1).upper() }} {{ "x".__class__ }}|
{{ 'abc'.nosuchmethod() }}
{{ 'a'.replace('x') }}
{{ 'abc'.index('z') }}
{{ 'abc'.split('') }}
{{ ','.join([1]) }}
{{ '{}'.format() }}
{{ '{'.format(1) }}
{{ '{:d}'.format('a') }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % (1, 2) }}
{{ '%(a)s' % {'b': 1} }}
{{ 'a' % 1 }}
{{ 'a'.startswith(1) }}
{{ n.upper() }}
{{ none.strip() }}
"""

CONTAINERS = r"""
{{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }} {{ d.items() | length }} {{ d.get('c', 'x') }}
{{ {'items': 1}['items'] }} {{ {'keys': 5}.keys() | list }} {{ d.copy() == d }} {{ items.copy() }} {{ items.count(1) }} {{ items.index(2) }} {{ (1, 2, 1).count(1) }}
{{ items + [4] }} {{ items | length }} {{ dict(d, z=1) | length }} {{ dict(a=1).a }} {{ 'a' in dict(a=1) }}
{{ [[1, 2], [3]] | sum(start=[]) }} {{ (items, names) | length }} {{ [d][0].b }} {{ {'a': {'b': {'c': 1}}}.a.b.c }}
{{ items.append(4) }}
{{ d.update({'z': 1}) }}
{{ items.pop() }}
{{ d.pop('a') }}
{{ d.setdefault('q', 1) }}
{{ items.sort() }}
{{ items.index(99) }}
{{ d.get() }}
{{ d.get('a', 1, 2) }}
"""

FUNCTIONS = r"""
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %B %Y, %H:%M') }} {{ strftime_now('%A %j %y %b') }}
{{ add_generation_prompt }} {{ bos_token }} {{ eos_token }} {{ tools is none }} {{ documents is none }} {{ messages | length }} {{ messages[2].tool_calls is defined }}
{{ raise_exception('no ' ~ n) }}
{% if n != 7 %}{{ raise_exception('never') }}{% endif %}ok
{{ range() }}
{{ range('a') }}
{% if true %}
{{ 1 +
{{ 'unclosed }}
{{ (1 }}
{{ a b }}
{% endif %}
{% else %}
{% macro %}
{% set %}
{{ }}
{% for in x %}
{{ 1 | }}
{{ x is }}
{{ . }}
{# never closed
{% raw %} never closed
"""


def all_templates():
    for group in [WHITESPACE, VALUES, OPERATORS, SLICES, LOOPS, SETS, MACROS, FILTERS, JSON, TESTS, STRINGS,
                  CONTAINERS, FUNCTIONS]:
        yield from (line for line in group.split("\n") if line)
    yield from MULTILINE
