"""How large things may grow, and how often a heavy header may be read."""

import re

from house.tree import HEADERS

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 100
MAX_DEVICE_FUNCTION_LINES = 250
MAX_PUBLIC_HEADER_LINES = 200
MAX_PUBLIC_HEADERS = 8
MAX_INSTANTIATIONS = 24
MAX_TRACKED_BYTES = 16 << 20

# {what: (pattern of the header's name, files that may include it)}
HEAVY_HEADERS = {
    "nlohmann/json.hpp": (re.compile(r'nlohmann/json\.hpp$'), 20),  # docs/decisions/0006
    "spdlog": (re.compile(r'spdlog/'), 10),
    "Beast/OpenSSL": (re.compile(r'boost/(beast|asio)|openssl/'), 3),
}

# {path or path:function -> reason}
ALLOWED = {}

CODE = (".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh", ".inc", ".py", ".sh", ".cmake")
TOPS = ("src", "include", "apps", "python", "tests", "bench", "scripts", "cmake")

_KEYWORD = re.compile(r'^\s*(?:if|for|while|switch|catch|do|else|return)\b')
_SCOPE = re.compile(r'\b(?:namespace|class|struct|union|enum|extern|concept)\b')


def _is_function(head, after_body):
    """Whether `head { … }`, met outside functions, is a function. A constructor's `: a_{a} {` arrives
    in pieces; the last piece, which starts with a comma or is empty, counts as its body."""
    head = head.strip()
    if not head or head.startswith(","):
        return after_body
    if head.endswith(("=", ",", "(", "return")) or _KEYWORD.match(head):
        return False
    if "(" not in head:
        return False
    before = head.split("(", 1)[0]
    return not (_SCOPE.search(before) and not re.search(r'\b\w+\s*$', before)) and \
        not re.match(r'^(?:template\s*<.*>\s*)?(?:class|struct|union|enum|namespace)\b', before, re.S)


def functions(code):
    """[(first line, last line, name, head)] of every function body that is not inside another."""
    found = []
    stack = []          # 'f' for a function's own brace, '{' for any other
    head_start = 0
    line = 1
    after_body = False  # the last brace closed at this level belonged to a function
    for match in re.finditer(r'[{};\n]', code):
        token, at = match.group(0), match.start()
        if token == "\n":
            line += 1
            continue
        if token == "{":
            head = code[head_start:at]
            inside = any(kind == "f" for kind, *_ in stack)
            function = not inside and _is_function(head, after_body)
            lead = len(head) - len(head.lstrip())
            first = line - head[lead:].count("\n")
            stack.append(("f" if function else "{", first, head.strip()))
        elif token == "}" and stack:
            kind, first, head = stack.pop()
            after_body = kind == "f"
            if kind == "f":
                found.append((first, line, _name(head), head))
        if token == ";":
            after_body = False
        head_start = at + 1
    return found


def _name(head):
    match = re.search(r'([\w:~]+|operator\s*\S+)\s*\(', head)
    return match.group(1) if match else "function"


def check_files(tree):
    for path in tree.files:
        if path.split("/")[0] not in TOPS or not path.endswith(CODE) or path in ALLOWED:
            continue
        lines = tree.text(path).count("\n")
        if lines > MAX_FILE_LINES:
            yield f"{path}:1: {lines} lines; {MAX_FILE_LINES} at most, split at a seam"
        if path.startswith("include/") and lines > MAX_PUBLIC_HEADER_LINES:
            yield f"{path}:1: public header of {lines} lines; {MAX_PUBLIC_HEADER_LINES} at most"
        if path.endswith(".cu"):
            count = len(re.findall(r'^\s*template\s+[^<\s]', tree.statements(path), re.M))
            if count > MAX_INSTANTIATIONS:
                yield f"{path}:1: {count} instantiations; {MAX_INSTANTIATIONS} at most"


def check_functions(tree):
    for path in tree.under("src", "include", "apps", "python", "tests", "bench"):
        for first, last, name, head in functions(tree.statements(path)):
            device = re.search(r'__(?:global|device)__', head)
            limit = MAX_DEVICE_FUNCTION_LINES if device else MAX_FUNCTION_LINES
            lines = last - first + 1
            if lines > limit and f"{path}:{name}" not in ALLOWED:
                yield f"{path}:{first}: {name} has {lines} lines; {limit} at most"


def check_heavy_headers(tree):
    """A wrapper of a heavy header (base/json.h) costs as much as the header: its users count too."""
    paths = tree.under("src", "include", "apps", "python")
    for what, (pattern, limit) in HEAVY_HEADERS.items():
        wrappers = {path.removeprefix("src/") for path in paths if path.endswith(HEADERS)
                    and any(pattern.search(name) for _, _, name in tree.includes(path))}
        users = [(path, number) for path in paths for number, _, name in tree.includes(path)
                 if pattern.search(name) or name in wrappers]
        if len({path for path, _ in users}) > limit:
            for path, number in users:
                yield f"{path}:{number}: {what} is included by more than {limit} files"


def check_public_headers(tree):
    headers = tree.under("include")
    if len(headers) > MAX_PUBLIC_HEADERS:
        yield f"{headers[-1]}:1: {len(headers)} public headers; {MAX_PUBLIC_HEADERS} at most"


def check_tracked(tree):
    sizes = {path: (tree.root / path).stat().st_size for path in tree.tracked}
    total = sum(sizes.values())
    if total > MAX_TRACKED_BYTES:
        largest = max(sizes, key=sizes.get)
        yield (f"{largest}:1: tracked files take {total} bytes, {MAX_TRACKED_BYTES} at most; "
               f"this is the largest, {sizes[largest]} bytes")


RULES = (check_files, check_functions, check_heavy_headers, check_public_headers, check_tracked)
