"""Names and words that the design bans, and what the toolchain lacks."""

import re

from house.tree import HEADERS

BANNED_TYPE = re.compile(
    r'(?:Manager|Helper|Util|Common)(?:s|ies|ities)?(?=[A-Z0-9_]|$)|Impl2|_new$')
BANNED_FILE = re.compile(r'(?:^|_)(?:manager|helper|util|utilitie|common|impl2|new)s?(?:_|$)')
TYPE_NAME = re.compile(
    r'\b(?:class|struct|enum(?:\s+class)?|union|concept)\s+(\w+)|\busing\s+(\w+)\s*=')

MACROS = {"KVERN_CHECK", "KVERN_DCHECK", "KVERN_CUDA", "KVERN_ZONE"}
# Switches that a library asks its includer to define.
LIBRARY_SWITCHES = {"PCRE2_CODE_UNIT_WIDTH", "FMT_HEADER_ONLY", "XXH_INLINE_ALL",
                    "XXH_STATIC_LINKING_ONLY", "JSON_NOEXCEPTION"}
# {(file, macro): reason}
ALLOWED_MACROS = {
    ("include/kvern/c_api.h", "KVERN_C_API_H_"): "a C header, for compilers without #pragma once",
}

# g++ 12 lacks these; fmt and base/result.h stand in.
MISSING_HEADERS = {"format", "print", "expected"}


def check_names(tree):
    for path in tree.under("src", "include", "apps", "python", "tests", "bench"):
        stem = path.rsplit("/", 1)[-1].split(".")[0]
        if BANNED_FILE.search(stem):
            yield f"{path}:1: the file name says nothing about what is inside (banned word)"
        for number, line in enumerate(tree.statements(path).splitlines(), 1):
            for match in TYPE_NAME.finditer(line):
                name = match.group(1) or match.group(2)
                if BANNED_TYPE.search(name):
                    yield f"{path}:{number}: type {name} carries a banned word"


def check_macros(tree):
    for path in tree.under("src", "include", "apps", "python"):
        for number, macro in tree.defines(path):
            known = macro in MACROS or macro in LIBRARY_SWITCHES
            if not known and (path, macro) not in ALLOWED_MACROS:
                yield f"{path}:{number}: macro {macro}; {', '.join(sorted(MACROS))} are all there are"


def check_headers(tree):
    for path in tree.under("src", "include", "apps", "python", "tests", "bench"):
        guarded = any(path == file for file, _ in ALLOWED_MACROS)
        once = re.search(r'^#pragma once$', tree.code(path), re.M)
        if path.endswith(HEADERS) and not once and not guarded:
            yield f"{path}:1: a header without #pragma once"
        for number, quote, name in tree.includes(path):
            if quote == "<" and name in MISSING_HEADERS:
                yield f"{path}:{number}: <{name}> is missing in g++ 12; use fmt or base/result.h"


RULES = (check_names, check_macros, check_headers)
