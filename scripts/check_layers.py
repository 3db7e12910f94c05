#!/usr/bin/env python3
"""Holds the tree to the design: who may include whom, and how large things may grow.

    scripts/check_layers.py [--root DIR] [--self-test]

Prints one line per violation, `file:line: what is wrong and what is allowed`, and exits 1.
--self-test plants every kind of violation in a small tree of its own and checks that each is found.
The rules live in scripts/house/: layers.py, sizes.py, names.py.
"""

import argparse
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
from house import layers, names, selftest, sizes, tree  # noqa: E402


def violations(root):
    files = tree.Tree(root)
    found = []
    for rule in (*layers.RULES, *sizes.RULES, *names.RULES):
        found.extend(rule(files))
    return sorted(set(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        with tempfile.TemporaryDirectory() as folder:
            return selftest.run(pathlib.Path(folder), violations)
    found = violations(args.root.resolve())
    for violation in found:
        print(violation)
    print(f"check_layers: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
