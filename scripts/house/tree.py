"""The files of the checkout, read once, with C++ reduced to what the rules look at."""

import functools
import pathlib
import re
import subprocess

CPP = (".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh", ".inc")
HEADERS = (".h", ".hpp", ".cuh")

_STRIP = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.S)
_PREPROCESSOR = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.M)


def _blank(match):
    """Keeps line numbers: what is removed leaves its newlines behind."""
    text = match.group(0)
    return ('""' if text[0] in '"R' else " ") + "\n" * text.count("\n")


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.tracked, self.files = self._list()

    def _list(self):
        """(tracked, tracked and new) paths relative to the root; outside git, every file is both."""
        def git(*args):
            out = subprocess.run(["git", "-C", self.root, "ls-files", "-z", *args],
                                 capture_output=True, text=True, check=True).stdout
            return sorted(p for p in out.split("\0") if p and (self.root / p).is_file())
        if (self.root / ".git").exists():
            return git("-c"), git("-c", "-o", "--exclude-standard")
        found = sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())
        return found, found

    def under(self, *tops, suffixes=CPP):
        return [f for f in self.files if f.split("/")[0] in tops and f.endswith(suffixes)]

    @functools.cache
    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def code(self, path):
        """The text without comments and with empty strings; preprocessor lines stay."""
        return _STRIP.sub(_blank, self.text(path))

    @functools.cache
    def statements(self, path):
        """code() without preprocessor lines."""
        return _PREPROCESSOR.sub(lambda m: "\n" * m.group(0).count("\n"), self.code(path))

    @functools.cache
    def includes(self, path):
        """[(line, '"' or '<', name)]"""
        found = []
        for number, line in enumerate(self.text(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match:
                found.append((number, match.group(1), match.group(2)))
        return found

    @functools.cache
    def defines(self, path):
        """[(line, macro)]"""
        return [(number, match.group(1))
                for number, line in enumerate(self.code(path).splitlines(), 1)
                if (match := re.match(r'\s*#\s*define\s+(\w+)', line))]
