"""Plants each kind of violation in a tree that is otherwise clean and expects it to be found."""

CMAKE = """\
kvern_module(base)
kvern_module(tensor DEPS base)
kvern_module(kernels DEPS base tensor RECURSE)
kvern_module(plan DEPS base tensor)
kvern_module(compile/ir DEPS base tensor)
kvern_module(compile DEPS base compile/ir plan)
kvern_module(run/kv DEPS base)
kvern_module(api DEPS base compile)
"""

CLEAN = {
    "src/CMakeLists.txt": CMAKE,
    "src/base/check.h": "#pragma once\n#include \"kvern/error.h\"\n#define KVERN_CHECK(x) (x)\n",
    "src/tensor/dtype.h": "#pragma once\n#include \"base/check.h\"\n",
    "src/kernels/cpu/gemm/gemm.h": "#pragma once\n#include \"tensor/dtype.h\"\n",
    "src/kernels/gemm.cpp": "#include \"kernels/cpu/gemm/gemm.h\"\n",
    "src/plan/plan.h": "#pragma once\n// #include \"compile/ir/graph.h\" in a comment is nothing\n",
    "src/compile/ir/graph.h": "#pragma once\n#include <vector>\n",
    "src/compile/driver.cpp": "#include \"compile/ir/graph.h\"\n#include \"plan/plan.h\"\n",
    "src/api/build.cpp": "#include \"kvern/build.h\"\n#include \"compile/driver.h\"\n",
    "src/compile/driver.h": "#pragma once\n",
    "include/kvern/error.h": "#pragma once\n",
    "include/kvern/build.h": "#pragma once\n#include \"kvern/error.h\"\n",
    "apps/cli/main.cpp": "#include \"apps/cli/verbs.h\"\n#include \"kvern/build.h\"\n",
    "apps/cli/verbs.h": "#pragma once\n",
    "tests/compile/driver_test.cpp": "#include \"run/kv/page.h\"\n#include \"compile/driver.h\"\n",
}

LONG_BODY = "  step();\n" * 101
LONG_METHOD = ("struct Foo {\n  Foo(int a) : a_{a}, b_{2} {\n" + LONG_BODY + "  }\n  int a_, b_;\n};\n")
# 92 lines; a brace inside a literal that was counted would make it longer.
LAMBDAS = "void f() {\n" + "  run([&](int x) {\n    if (x) { g('{', \"}\", 1'000); }\n  });\n" * 30 + "}\n"
TABLE = "const Entry kTable[] = {\n" + "    {\"a\", f(1)},\n" * 200 + "};\n"
JSON = "#include <nlohmann/json.hpp>\n"

# (what, {path: text}, a piece of the expected line); an empty piece: nothing may be found.
PLANTED = [
    ("a clean tree", {}, ""),
    ("lambdas and braces in literals", {"src/base/l.cpp": LAMBDAS + "\n" + LAMBDAS}, ""),
    ("a long table is no function", {"src/base/t.cpp": TABLE}, ""),
    ("run sees ir", {"src/run/kv/page.cpp": "\n#include \"compile/ir/graph.h\"\n"},
     "src/run/kv/page.cpp:2: includes compile/ir/graph.h: run/kv may not include compile/ir"),
    ("kernels see plan", {"src/kernels/cpu/gemm/fast.cpp": "#include \"plan/plan.h\"\n"},
     "src/kernels/cpu/gemm/fast.cpp:1: includes plan/plan.h"),
    ("base looks up", {"src/base/log.cpp": "#include \"tensor/dtype.h\"\n"}, "src/base/log.cpp:1:"),
    ("an include in angle brackets", {"src/base/log.cpp": "#include <tensor/dtype.h>\n"},
     "src/base/log.cpp:1:"),
    ("the driver's module is not compile/ir", {"src/compile/ir/g.cpp": "#include \"compile/driver.h\"\n"},
     "compile/ir may not include compile "),
    ("allowed by the table, not declared in CMake",
     {"src/compile/driver.cpp": "#include \"tensor/dtype.h\"\n"}, "src/compile/driver.cpp:1:"),
    ("a declaration beyond the table",
     {"src/CMakeLists.txt": CMAKE + "kvern_module(run/step DEPS base run/kv compile/ir)\n"},
     "src/CMakeLists.txt:9: run/step may not depend on compile/ir"),
    ("an unknown module", {"src/CMakeLists.txt": CMAKE + "kvern_module(misc DEPS base)\n"},
     "src/CMakeLists.txt:9: module misc"),
    ("a file of no module", {"src/stray/a.cpp": ""}, "src/stray/a.cpp:1: belongs to no module"),
    ("an include that is not rooted at src", {"src/compile/ir/g.cpp": "#include \"graph.h\"\n"},
     "src/compile/ir/g.cpp:1: includes graph.h"),
    ("a public header inside", {"src/plan/read.cpp": "#include \"kvern/build.h\"\n"},
     "src/plan/read.cpp:1:"),
    ("a public header that looks in", {"include/kvern/plan.h": "#pragma once\n#include \"plan/plan.h\"\n"},
     "include/kvern/plan.h:2:"),
    ("an application that looks in", {"apps/cli/main.cpp": "#include \"plan/plan.h\"\n"},
     "apps/cli/main.cpp:1:"),
    ("Python bindings that look in", {"python/module.cpp": "#include <plan/plan.h>\n"},
     "python/module.cpp:1:"),
    ("a long file", {"src/base/long.cpp": "int a;\n" * 601}, "src/base/long.cpp:1: 601 lines"),
    ("a long function", {"src/base/f.cpp": "namespace a {\n\nint f(int x) {\n" + LONG_BODY + "}\n}\n"},
     "src/base/f.cpp:3: f has 103 lines"),
    ("a long constructor", {"src/base/f.cpp": LONG_METHOD}, "src/base/f.cpp:"),
    ("a long test", {"tests/base/f_test.cpp": "TEST(A, B) {\n" + LONG_BODY + "}\n"},
     "tests/base/f_test.cpp:1:"),
    ("a long public header", {"include/kvern/plan.h": "#pragma once\n" + "int a;\n" * 200},
     "include/kvern/plan.h:1: public header"),
    ("nine public headers", {f"include/kvern/h{i}.h": "#pragma once\n" for i in range(7)},
     "9 public headers"),
    ("json in twenty-one files", {f"src/base/j{i}.cpp": JSON for i in range(21)},
     "src/base/j3.cpp:1: nlohmann/json.hpp"),
    ("json through a wrapper", {"src/base/j.h": "#pragma once\n" + JSON,
                               **{f"src/base/w{i}.cpp": "#include \"base/j.h\"\n" for i in range(20)}},
     "src/base/w3.cpp:1: nlohmann/json.hpp"),
    ("spdlog in eleven files", {f"src/base/j{i}.cpp": "#include <spdlog/sinks/a.h>\n" for i in range(11)},
     "src/base/j3.cpp:1: spdlog"),
    ("Beast in four files", {f"apps/s{i}.cpp": "#include <boost/beast/http.hpp>\n" for i in range(4)},
     "apps/s0.cpp:1: Beast"),
    ("a banned type", {"src/base/a.cpp": "\nclass PageManager {};\n"}, "src/base/a.cpp:2: type PageManager"),
    ("a banned file", {"src/base/string_utils.cpp": ""}, "src/base/string_utils.cpp:1:"),
    ("utilisation is no banned word", {"src/base/a.cpp": "struct Utilisation {};\n"}, ""),
    ("a macro", {"src/base/a.cpp": "#define MAX(a, b) a\n"}, "src/base/a.cpp:1: macro MAX"),
    ("a header without pragma once", {"src/base/a.h": "// #pragma once\nint a;\n"}, "src/base/a.h:1:"),
    ("std::format", {"src/base/a.cpp": "#include <format>\n"}, "src/base/a.cpp:1: <format>"),
    ("too many instantiations", {"src/kernels/a.cu": "template void f<1>();\n" * 25},
     "src/kernels/a.cu:1: 25 instantiations"),
    ("too many tracked bytes", {"tests/golden/big.bin": "\0" * ((16 << 20) + 1)},
     "tests/golden/big.bin:1: tracked files"),
]


def _write(root, files):
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def run(folder, violations):
    failed = 0
    for index, (what, planted, expected) in enumerate(PLANTED):
        root = folder / str(index)
        _write(root, {**CLEAN, **planted})
        found = violations(root)
        good = not found if not expected else any(expected in line for line in found)
        if not good:
            failed += 1
            print(f"self-test: {what}: expected {expected or 'nothing'!r}, found {found}")
    print(f"check_layers --self-test: {len(PLANTED) - failed} passed, {failed} failed")
    return 1 if failed else 0
