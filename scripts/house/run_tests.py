#!/usr/bin/env python3
"""Runs the tests that CMake declared, by label, and counts single tests instead of binaries.

    run_tests.py BUILD_DIR --labels fast,e2e [--filter REGEX] [--jobs N] [--counts FILE]

`fast` binaries run side by side; the other labels use every core and run one at a time. A binary
that is missing, crashes or times out counts as one failure. Ends with `N passed, N failed, N skipped`.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = {"fast": 600, "e2e": 1200, "slow": 3600, "gpu": 1200}


def declared_tests(build, labels, pattern):
    """[(name, label, command)] in the order of CMake."""
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                             capture_output=True, text=True, check=True).stdout
    found = []
    for test in json.loads(listing)["tests"]:
        of = [label for prop in test.get("properties", []) if prop["name"] == "LABELS"
              for label in prop["value"]]
        label = next((wanted for wanted in labels if wanted in of), None)
        if label and re.search(pattern, test["name"]):
            found.append((test["name"], label, test.get("command")))
    return found


def count(report, exit_code):
    """(passed, failed, skipped, reasons) from gtest's JSON report; no report: the binary died."""
    try:
        suites = json.loads(report.read_text())["testsuites"]
    except (OSError, ValueError):
        return 0, 1, 0, [f"no report; exit code {exit_code}"]
    passed = failed = skipped = 0
    reasons = []
    for suite in suites:
        for case in suite["testsuite"]:
            if case.get("failures"):
                failed += 1
                reasons.append(f"{suite['name']}.{case['name']}")
            elif case.get("result") == "SKIPPED":
                skipped += 1
            elif case.get("status") == "RUN":
                passed += 1
    if exit_code != 0 and failed == 0:
        failed, reasons = 1, [f"exit code {exit_code} after all tests"]
    return passed, failed, skipped, reasons


def run_one(test, folder):
    name, label, command = test
    if not command or not os.access(command[0], os.X_OK):
        return test, (0, 1, 0, ["not built"]), 0.0, ""
    report = pathlib.Path(folder) / f"{name.replace('/', '_')}.json"
    begin = time.monotonic()
    try:
        done = subprocess.run([*command, f"--gtest_output=json:{report}"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT_S[label])
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, output = "timeout", (expired.stdout or b"").decode(errors="replace")
    return test, count(report, code), time.monotonic() - begin, output


def num_gpu_tests(build):
    """How many tests want a GPU, by the binaries' own lists."""
    total = 0
    for _, _, command in declared_tests(build, ["gpu"], ""):
        if command and os.access(command[0], os.X_OK):
            listing = subprocess.run([*command, "--gtest_list_tests"], capture_output=True, text=True)
            total += sum(line.startswith("  ") for line in listing.stdout.splitlines())
    return total


def run_all(tests, jobs):
    """Yields results as they come: the fast ones side by side, then the others alone."""
    with tempfile.TemporaryDirectory() as folder:
        side_by_side = [t for t in tests if t[1] == "fast"]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(run_one, test, folder) for test in side_by_side]
            for future in concurrent.futures.as_completed(running):
                yield future.result()
        for test in tests:
            if test[1] != "fast":
                yield run_one(test, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--labels", default="fast")
    parser.add_argument("--filter", default="", help="a regular expression over names as run_kv.fast")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--counts", type=pathlib.Path, help="also write the three numbers here")
    args = parser.parse_args()

    labels = args.labels.split(",")
    tests = declared_tests(args.build, labels, args.filter)
    totals = [0, 0, 0]
    for (name, *_), (passed, failed, skipped, reasons), seconds, output in run_all(tests, args.jobs):
        if passed + failed + skipped == 0:
            continue
        if failed:
            print(output, end="" if output.endswith("\n") else "\n")
            print(f"FAILED in {name}: {', '.join(reasons)}")
        for line in output.splitlines():
            if not failed and line.startswith("report: "):
                print(line.removeprefix("report: "))
        print(f"{name:28} {passed:5} passed {failed:3} failed {skipped:3} skipped {seconds:7.1f} s",
              flush=True)
        totals = [a + b for a, b in zip(totals, (passed, failed, skipped))]
    if not tests:
        print(f"run_tests: no test of {args.labels} matches {args.filter!r}")
    if "gpu" not in labels and not args.filter and (gpu := num_gpu_tests(args.build)):
        print(f"{gpu} GPU tests skipped: no GPU here")
        totals[2] += gpu
    if args.counts:
        args.counts.write_text(" ".join(map(str, totals)) + "\n")
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
