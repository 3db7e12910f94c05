#!/usr/bin/env python3
"""Kvern beside llama.cpp, ik_llama.cpp and OpenVINO GenAI on one GGUF file (plain Python 3.9+).

    bench/peers/compare_all.py --kvern PATH --plan X.plan --model X.gguf [-N 5] [--json FILE]
        [--llama-bench PATH] [--openvino-python PATH] [--ik-python PATH] [--more "NAME=COMMAND" ...]

Cases: prefill of 512 tokens; 64 tokens after 32 and after 1,024; eight sequences after 32 each. Every
engine runs once per round, a fresh process each, in an order that changes every round; the ratio is
the median of the rounds' own ratios, Kvern divided by the peer. Peers that are not given are left
out. --more adds an engine whose command prints {"results": [{"test": …, "tokens_per_second": …}]},
a second Kvern plan for instance. Runs beside other processes are marked (see compare.py).
"""

import argparse
import json
import pathlib
import random
import shlex
import sys

from compare import cpu_model, ratio, run_beside, spread

CASES = ("pp512", "tg64 d32", "tg64 d1024", "tg64 b8 d32")
HERE = pathlib.Path(__file__).resolve().parent


def results_rates(output):
    """kvern bench leaves the depth out of a test's name where all are the same."""
    rates = {}
    for result in output["results"]:
        test, depth = result["test"], result.get("depth")
        if depth and f" d{depth}" not in test:
            test += f" d{depth}"
        rates[test] = float(result["tokens_per_second"])
    return rates


def llama_rates(output):
    """llama-bench -o json: n_gen = 0 for prefill."""
    rates = {}
    for entry in output:
        rate = float(entry["avg_ts"])
        if not entry["n_gen"]:
            rates[f"pp{entry['n_prompt']}"] = rate
        else:
            rates[f"tg{entry['n_gen']} d{entry['n_depth']}"] = rate
    return rates


def engines(args):
    """Name -> (commands, how to read what each prints)."""
    threads = str(args.threads)
    kvern = [args.kvern, "bench", args.plan, "-n", "64", "-r", "1", "--threads", threads, "-o", "json"]
    shallow = kvern + ["-p", "512", "-d", "32", "-b", "1,8"]
    out = {"kvern": ([shallow, kvern + ["-p", "0", "-d", "1024"]], results_rates)}
    if args.llama_bench:
        llama = [args.llama_bench, "-m", args.model, "-t", threads, "-r", "1", "-o", "json"]
        decode = llama + ["-p", "0", "-n", "64", "-d", "32,1024"]
        out["llama.cpp"] = ([llama + ["-p", "512", "-n", "0"], decode], llama_rates)
    for name, python, script in (
        ("openvino", args.openvino_python, "openvino_rates.py"),
        ("ik_llama.cpp", args.ik_python, "ik_llama_rates.py"),
    ):
        if python:
            out[name] = ([[python, str(HERE / script), args.model, threads]], results_rates)
    for more in args.more:
        name, _, command = more.partition("=")
        out[name] = ([shlex.split(command)], results_rates)
    return out


def measure(peers, rounds, max_other_cores):
    runs = {name: [] for name in peers}
    order, rng, disturbed = list(peers), random.Random(1), []
    for number in range(rounds):
        rng.shuffle(order)
        for name in order:
            commands, parse = peers[name]
            rates, others = {}, 0.0
            for command in commands:
                output, beside = run_beside(command)
                rates.update(parse(output))
                others = max(others, beside)
            runs[name].append(rates)
            shown = ", ".join(f"{t} {r:.0f}" for t, r in runs[name][-1].items() if t in CASES)
            print(f"round {number + 1} {name}: {shown}; others {others:.2f} cores", file=sys.stderr)
            if others > max_other_cores:
                disturbed.append(f"{name} in round {number + 1} ({others:.2f} cores)")
    return runs, disturbed


def table(runs, disturbed, args):
    lines = [
        f"{cpu_model()}, {args.threads} threads, {args.rounds} rounds; tokens per second, median "
        "(min-max); ratio: Kvern divided by it",
        "",
        "| engine | " + " | ".join(f"{case} | ratio" for case in CASES) + " |",
        "|---|" + "--:|--:|" * len(CASES),
    ]
    for name in runs:
        cells = [name]
        for case in CASES:
            ours = [run.get(case) for run in runs["kvern"]]
            theirs = [run.get(case) for run in runs[name]]
            cells += [spread(theirs), "" if name == "kvern" else ratio(ours, theirs)]
        lines.append("| " + " | ".join(cells) + " |")
    if disturbed:
        lines += ["", "Beside other processes: " + ", ".join(disturbed) + "."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvern", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-bench")
    parser.add_argument("--openvino-python", help="of an environment that has openvino-genai")
    parser.add_argument("--ik-python", help="of an environment that has ik-llama-cpp-python")
    parser.add_argument("--more", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-N", "--rounds", type=int, default=5)
    parser.add_argument("--max-other-cores", type=float, default=0.2)
    parser.add_argument("--json", help="write every run there")
    args = parser.parse_args()
    runs, disturbed = measure(engines(args), args.rounds, args.max_other_cores)
    print(table(runs, disturbed, args))
    if args.json:
        kept = {"cpu": cpu_model(), "threads": args.threads, "runs": runs, "disturbed": disturbed}
        pathlib.Path(args.json).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
